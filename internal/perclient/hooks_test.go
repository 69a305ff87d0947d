// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
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

// seen is an observer that remembers.
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
	for _, exchange := range [][2]watch.Kind{{watch.DISCOVER, watch.OFFER}, {watch.REQUEST, watch.ACK}, {watch.REQUEST, watch.NAK}} {
		send(guest, exchange[0])
		eventually(t, func() bool { s, _ := o.of(1); return !s.Waiting.IsZero() && s.DHCP == exchange[0] })
		send(server, exchange[1])
		eventually(t, func() bool { s, _ := o.of(1); return s.Waiting.IsZero() })
	}
	s, _ := o.of(1)
	assert.Equal(t, watch.Counts{Discovers: 1, Requests: 2, Offers: 1, Acks: 1, Naks: 1}, s.Counts)
	require.NoError(t, guest.Close())
	eventually(t, func() bool { _, gone := o.of(1); return gone })
}

// nothing is a tap.
type nothing struct{ batches int }

func (n *nothing) FromClient(uint64, frame.Batch) { n.batches++ }
func (n *nothing) ToClient(uint64, frame.Batch)   { n.batches++ }

// quietLink takes frames.
type quietLink struct{ link.Link }

func (quietLink) Deliver(frame.Batch) {}

// looked is a session with a port, without and with a tap.
func looked(on bool) (*Session, *nothing) {
	n := &nothing{}
	srv := &Server{}
	c := &Session{srv: srv, id: 1, link: quietLink{}, seen: true}
	send := func(frame.Batch) {}
	c.send.Store(&send)
	if on {
		var t tap = n
		srv.tap.Store(&t)
	}
	return c, n
}

func TestTapAllocatesNothing(t *testing.T) {
	batch := frame.NewBatch(frame.Append(nil, make([]byte, 60)), 1)
	for name, on := range map[string]bool{"off": false, "on": true} {
		t.Run(name, func(t *testing.T) {
			s, n := looked(on)
			assert.Zero(t, testing.AllocsPerRun(1000, func() {
				s.Deliver(batch)
				s.Frames(batch)
			}))
			assert.Equal(t, on, n.batches > 0)
		})
	}
}
