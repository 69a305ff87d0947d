// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"encoding/binary"
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// comes has a client with this address come, and waits until it is known: only a client that has spoken gets its port here.
func (r *rig) comes(t *testing.T, mac byte) (net.Conn, Info) {
	t.Helper()
	before := map[uint64]bool{}
	for _, i := range r.List() {
		before[i.ID] = true
	}
	c := r.dial(t)
	say(t, c, mac, "here I am")
	var found Info
	eventually(t, func() bool {
		for _, i := range r.List() {
			if !before[i.ID] && i.State == status.StateRunning {
				found = i
				return true
			}
		}
		return false
	})
	return c, found
}

func (r *rig) goes(t *testing.T, c net.Conn) {
	t.Helper()
	n := r.Clients()
	require.NoError(t, c.Close())
	eventually(t, func() bool { return r.Clients() < n })
}

// TestReconnects: a guest that comes back counts, two at once with one address do not.
func TestReconnects(t *testing.T) {
	r := newPatientRig(t, Options{}, time.Hour)
	total := func() uint64 {
		_, totals := r.Census()
		return totals.Reconnects
	}
	a, i := r.comes(t, 1)
	assert.Zero(t, i.Reconnects)
	b, i := r.comes(t, 2)
	assert.Zero(t, i.Reconnects, "another guest")
	twin, i := r.comes(t, 1)
	assert.Zero(t, i.Reconnects, "two at once with one address")
	r.goes(t, twin)
	twin, i = r.comes(t, 1)
	assert.Zero(t, i.Reconnects, "the other one is still there")
	r.goes(t, a)
	r.goes(t, twin)
	assert.Zero(t, total())
	for n := range uint64(3) {
		a, i = r.comes(t, 1)
		assert.Equal(t, n+1, i.Reconnects)
		say(t, a, 1, "the address is known already")
		say(t, a, 2, "and only the first one counts")
		r.goes(t, a)
	}
	assert.Equal(t, uint64(3), total())
	r.goes(t, b)
	_, i = r.comes(t, 2)
	assert.Equal(t, uint64(1), i.Reconnects)
	assert.Equal(t, uint64(4), total())
}

// goneLink is a link whose client has left, which its session has not noticed.
type goneLink struct{ *fakeLink }

func (goneLink) Gone() bool { return true }

// TestReconnectBeforeTheEnd: a guest is often quicker than the end of its former session.
func TestReconnectBeforeTheEnd(t *testing.T) {
	var g guests
	mac := [6]byte{2, 0, 0, 0, 0, 1}
	first, second, third := &Session{link: goneLink{newFakeLink()}}, &Session{link: newFakeLink()}, &Session{link: newFakeLink()}
	x := g.arrives(first, mac, false)
	assert.Same(t, x, g.arrives(second, mac, false))
	assert.Equal(t, uint64(1), second.reconnects.Load())
	g.leaves(first, x)
	g.arrives(third, mac, false)
	assert.Equal(t, uint64(1), third.reconnects.Load(), "the second one is there")
	assert.Equal(t, uint64(1), g.total())
	g.leaves(third, x)
	g.leaves(second, x)
	assert.Zero(t, x.live)
	assert.Nil(t, x.newest, "no session is kept from being freed")
}

// TestGuestsAreBounded: the one that came longest ago is forgotten, also while it is there.
func TestGuestsAreBounded(t *testing.T) {
	var g guests
	mac := func(n int) (m [6]byte) {
		binary.BigEndian.PutUint32(m[2:], uint32(n))
		return m
	}
	c := &Session{link: newFakeLink()}
	old := g.arrives(c, mac(0), false)
	for n := range 2 * maxGuests {
		g.leaves(c, g.arrives(c, mac(n+1), false))
	}
	assert.Len(t, g.byMAC, maxGuests)
	assert.Equal(t, maxGuests, g.recent.Len())
	g.leaves(c, old)
	again := &Session{link: newFakeLink()}
	g.leaves(again, g.arrives(again, mac(0), false))
	assert.Zero(t, again.reconnects.Load(), "it is forgotten")
	g.arrives(again, mac(2*maxGuests), false)
	assert.Equal(t, uint64(1), again.reconnects.Load())
}

// TestServerIsRecalled: what all clients did goes over an upgrade, those of them who are there count once.
func TestServerIsRecalled(t *testing.T) {
	r := newPatientRig(t, Options{}, time.Hour)
	a, _ := r.comes(t, 1)
	r.goes(t, a)
	_, i := r.comes(t, 1)
	assert.Equal(t, uint64(1), i.Reconnects)
	require.NoError(t, r.Pause(within(t)))
	text, err := json.Marshal(r.Save())
	require.NoError(t, err)
	_, before := r.Census()
	saved, ok := r.Sessions()[0].Save()
	require.True(t, ok)
	r.Resume()

	var v SavedServer
	require.NoError(t, json.Unmarshal(text, &v))
	s := NewServer(Options{Network: r.net, Log: r.opts.Log})
	s.Recall(v)
	l := newFakeLink()
	_, err = s.Restore(l, Client{}, saved)
	require.NoError(t, err)
	s.Restored()
	list, after := s.Census()
	require.Len(t, list, 1)
	assert.Equal(t, uint64(1), list[0].Reconnects)
	assert.Equal(t, before.Connects, after.Connects)
	assert.Equal(t, before.Reconnects, after.Reconnects)
	assert.Equal(t, uint64(1), after.Link.ToNetFrames, "the one that has left; what the link says is the other's")
	l.end(net.ErrClosed)
	eventually(t, func() bool { return s.Clients() == 0 })
	c := &Session{link: newFakeLink()}
	s.guests.arrives(c, [6]byte{2, 0, 0, 0, 0, 1}, false)
	assert.Equal(t, uint64(2), c.reconnects.Load())
	s.Stop()
	s.Wait(t.Context())
}

// TestRecallOfAnOlderProgram: one that saved nothing of this kind.
func TestRecallOfAnOlderProgram(t *testing.T) {
	r := newRig(t, Options{})
	s := NewServer(Options{Network: r.net, Log: r.opts.Log})
	s.Recall(SavedServer{})
	l := newFakeLink()
	_, err := s.Restore(l, Client{}, Saved{ID: 7, Client: SavedClient{Peer: peercred.Peer{Known: true, UID: 5}}})
	require.NoError(t, err)
	s.Restored()
	_, totals := s.Census()
	assert.Equal(t, uint64(1), totals.Connects)
	s.Stop()
	s.Wait(t.Context())
}
