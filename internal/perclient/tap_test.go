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
