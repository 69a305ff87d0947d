// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// start is when the clock of these tests begins.
var start = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

// Messages of the guest and for it.
var (
	discover  = dhcp{kind: 1}.frame()
	request   = dhcp{kind: 3, options: option(50, string(ip17.AsSlice()))}.frame()
	renew     = dhcp{kind: 3, ciaddr: ip17.As4()}.frame()
	decline   = dhcp{kind: 4}.frame()
	release   = dhcp{kind: 7}.frame()
	offer     = dhcp{kind: 2, reply: true, yiaddr: ip17.As4()}.frame()
	ack       = dhcp{kind: 5, reply: true, yiaddr: ip17.As4()}.frame()
	nak       = dhcp{kind: 6, reply: true}.frame()
	linkLocal = arpFrame(1, guestMAC, [4]byte{169, 254, 7, 7}, none)
	probe     = arpFrame(1, guestMAC, none, ip17.As4())
)

// show shows f to w the way that it goes.
func show(w *Watch, f []byte) {
	if f[36] == 0 && f[37] == 68 {
		w.ToClient(f)
	} else {
		w.FromClient(f)
	}
}

func TestWaiting(t *testing.T) {
	foreign := net.HardwareAddr{0x52, 0x54, 0, 0, 0, 0x99}
	tests := []struct {
		name   string
		frames [][]byte      // a second apart; replies go to the client
		want   time.Duration // since the start; negative: it does not wait
		counts Counts
	}{
		{"nothing", nil, -1, Counts{}},
		{"discover", [][]byte{discover}, 0, Counts{Discovers: 1}},
		{"again and again: since the first", [][]byte{goldenARP, discover, discover, discover}, time.Second, Counts{Discovers: 3}},
		{"offer", [][]byte{discover, offer}, -1, Counts{Discovers: 1, Offers: 1}},
		{"all of it", [][]byte{discover, offer, request, ack}, -1, Counts{Discovers: 1, Offers: 1, Requests: 1, Acks: 1}},
		{"refused", [][]byte{request, nak}, -1, Counts{Requests: 1, Naks: 1}},
		{"renewal without an answer", [][]byte{discover, offer, request, ack, renew}, 4 * time.Second, Counts{Discovers: 1, Offers: 1, Requests: 2, Acks: 1}},
		{"release", [][]byte{request, release}, -1, Counts{Requests: 1}},
		{"decline", [][]byte{request, decline}, -1, Counts{Requests: 1}},
		{"another guest's", [][]byte{goldenARP, dhcp{kind: 1, chaddr: foreign}.frame()}, -1, Counts{}},
		{"another guest's answer", [][]byte{discover, dhcp{kind: 2, reply: true, chaddr: foreign}.frame()}, 0, Counts{Discovers: 1}},
		{"a static address", [][]byte{discover, goldenARP}, -1, Counts{Discovers: 1}},
		{"a probe is none", [][]byte{discover, probe}, 0, Counts{Discovers: 1}},
		{"an address for want of one", [][]byte{discover, linkLocal}, 0, Counts{Discovers: 1}},
		{"renewals go on with the address", [][]byte{renew, goldenARP}, 0, Counts{Requests: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var w Watch
			now := start
			w.now = func() time.Time { return now }
			for _, f := range tt.frames {
				show(&w, f)
				now = now.Add(time.Second)
			}
			s := w.Snapshot()
			assert.Equal(t, tt.counts, s.Counts)
			assert.Equal(t, tt.want >= 0, w.Waiting())
			if tt.want >= 0 {
				assert.Equal(t, tt.want, s.Waiting.Sub(start))
			} else {
				assert.Zero(t, s.Waiting)
				assert.Zero(t, s.Asked)
			}
		})
	}
}

func TestWaitingEndsWithTheQuestions(t *testing.T) {
	var w Watch
	now := start
	w.now = func() time.Time { return now }
	w.FromClient(discover)
	now = start.Add(6 * time.Minute)
	w.FromClient(discover)
	now = start.Add(16 * time.Minute)
	assert.Equal(t, start, w.Snapshot().Waiting, "it asked ten minutes ago")
	now = now.Add(time.Second)
	assert.Zero(t, w.Snapshot().Waiting, "it asks no more")
	w.FromClient(discover)
	assert.Equal(t, now, w.Snapshot().Waiting, "it begins again")
	now = now.Add(time.Hour)
	w.FromClient(discover)
	assert.Equal(t, now, w.Snapshot().Waiting, "not looked at in between")
}

func TestClaimed(t *testing.T) {
	var w Watch
	now := start
	w.now = func() time.Time { return now }
	said := func(f []byte) time.Time {
		now = now.Add(time.Second)
		show(&w, f)
		return w.Snapshot().Claimed
	}
	assert.Equal(t, now.Add(time.Second), said(goldenARP))
	assert.Equal(t, now.Add(time.Second), said(goldenARP), "said again")
	assert.Equal(t, now.Add(time.Second), said(arpFrame(2, guestMAC, ip17.As4(), gateway.As4())), "an answer is as good for what is known")
	before := now
	assert.Equal(t, before, said(arpFrame(2, guestMAC, ip18.As4(), gateway.As4())), "an answer for another station")
	assert.Equal(t, now.Add(time.Second), said(renew))
	assert.Equal(t, now.Add(time.Second), said(ack))
	assert.Zero(t, said(release))
	assert.False(t, w.Snapshot().IP.IsValid())
}
