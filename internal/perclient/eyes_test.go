// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/watch"
)

// dhcpFrame is a DHCP message of the guest with that last byte in its MAC address, or one for it.
func dhcpFrame(kind watch.Kind, guest byte) []byte {
	p := make([]byte, 240, 300)
	p[0], p[1], p[2] = 1, 1, 6
	mac := []byte{2, 0, 0, 0, 0, guest}
	src, ports := mac, []byte{0, 68, 0, 67}
	if kind == watch.OFFER || kind == watch.ACK || kind == watch.NAK {
		p[0], src, ports = 2, []byte{2, 0, 0, 0, 0, 0xee}, []byte{0, 67, 0, 68}
	}
	copy(p[28:], mac)
	copy(p[236:], []byte{0x63, 0x82, 0x53, 0x63})
	p = append(p, 53, 1, byte(kind), 255)
	f := append([]byte{255, 255, 255, 255, 255, 255}, src...)
	f = append(f, 8, 0, 0x45, 0)
	f = binary.BigEndian.AppendUint16(f, uint16(28+len(p)))
	f = append(f, 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255)
	f = append(f, ports...)
	f = binary.BigEndian.AppendUint16(f, uint16(8+len(p)))
	return append(append(f, 0, 0), p...)
}

// seen is an Observer that remembers.
type seen struct {
	mu   sync.Mutex
	last map[uint64]watch.Snapshot
	gone map[uint64]bool
}

func (s *seen) Seen(id uint64, now watch.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[id] = now
}

func (s *seen) Gone(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[id] = true
}

func (s *seen) of(id uint64) (watch.Snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[id], s.gone[id]
}

// TestObserver: a guest asks and another client answers.
func TestObserver(t *testing.T) {
	o := &seen{last: map[uint64]watch.Snapshot{}, gone: map[uint64]bool{}}
	r := newRig(t, Options{Observer: o})
	guest := r.dial(t)
	r.attached(t, 1)
	server := r.dial(t)
	r.attached(t, 2)
	send := func(c interface{ Write([]byte) (int, error) }, kind watch.Kind) {
		_, err := c.Write(frame.Append(nil, dhcpFrame(kind, 1)))
		require.NoError(t, err)
	}
	eye := func() bool {
		for _, x := range r.Sessions() {
			if x.id == 1 {
				return x.eyes.Load()&eyeDHCP != 0
			}
		}
		return false
	}
	for _, exchange := range [][2]watch.Kind{{watch.DISCOVER, watch.OFFER}, {watch.REQUEST, watch.ACK}, {watch.REQUEST, watch.NAK}} {
		send(guest, exchange[0])
		eventually(t, func() bool { s, _ := o.of(1); return !s.Waiting.IsZero() && s.DHCP == exchange[0] })
		assert.True(t, eye(), "answers are looked for")
		send(server, exchange[1])
		eventually(t, func() bool { s, _ := o.of(1); return s.Waiting.IsZero() })
		eventually(t, func() bool { return !eye() })
	}
	s, _ := o.of(1)
	assert.Equal(t, watch.Counts{Discovers: 1, Requests: 2, Offers: 1, Acks: 1, Naks: 1}, s.Counts)
	require.NoError(t, guest.Close())
	eventually(t, func() bool { _, gone := o.of(1); return gone })
}

// TestQuestionMeetsAnswer: after a question and an answer at the same time, answers are looked for if, and only if, the guest waits. The
// worst moment is a few instructions long, and not forced.
func TestQuestionMeetsAnswer(t *testing.T) {
	c := &Session{srv: &Server{}}
	ask, answer := dhcpFrame(watch.DISCOVER, 1), dhcpFrame(watch.OFFER, 1)
	for range 5000 {
		var both sync.WaitGroup
		both.Go(func() { c.watch.FromClient(ask); c.observed() })
		both.Go(func() { c.watch.ToClient(answer); c.observed() })
		both.Wait()
		require.Equal(t, c.watch.Waiting(), c.eyes.Load()&eyeDHCP != 0)
	}
}
