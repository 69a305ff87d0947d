// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// nothing is a Sink and a Tap.
type nothing struct{ batches int }

func (*nothing) Deliver(frame.Batch)              {}
func (*nothing) MaxFrame() int                    { return frame.MaxLen }
func (n *nothing) FromClient(uint64, frame.Batch) { n.batches++ }
func (n *nothing) ToClient(uint64, frame.Batch)   { n.batches++ }

// looked is a session's end towards its client, without and with a tap.
func looked(on bool) (*eyeSink, *nothing) {
	n := &nothing{}
	srv := &Server{}
	c := &Session{srv: srv, id: 1}
	if on {
		var t Tap = n
		srv.tap.Store(&t)
		c.mark(eyeTap, true)
	}
	return &eyeSink{n, c}, n
}

// BenchmarkTapOff is what captures cost a batch while there are none, both ways, and with a tap that does nothing.
func BenchmarkTapOff(b *testing.B) {
	batch := frame.NewBatch(frame.Append(nil, make([]byte, 60)), 1)
	for name, on := range map[string]bool{"off": false, "on": true} {
		b.Run(name, func(b *testing.B) {
			s, _ := looked(on)
			b.ReportAllocs()
			for b.Loop() {
				s.Deliver(batch)
				s.c.lookFromClient(batch)
			}
		})
	}
}

func TestTapAllocatesNothing(t *testing.T) {
	batch := frame.NewBatch(frame.Append(nil, make([]byte, 60)), 1)
	for name, on := range map[string]bool{"off": false, "on": true} {
		t.Run(name, func(t *testing.T) {
			s, n := looked(on)
			assert.Zero(t, testing.AllocsPerRun(1000, func() {
				s.Deliver(batch)
				s.c.lookFromClient(batch)
			}))
			assert.Equal(t, on, n.batches > 0)
		})
	}
}
