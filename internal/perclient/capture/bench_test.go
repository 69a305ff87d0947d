// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// nowhere is an output that takes everything at once, or nothing.
type nowhere struct {
	full  chan struct{} // nil: it takes everything
	bytes atomic.Int64
}

func (n *nowhere) Write(b []byte) (int, error) {
	if n.full != nil {
		<-n.full
		return 0, io.ErrClosedPipe
	}
	n.bytes.Add(int64(len(b)))
	return len(b), nil
}

func (*nowhere) SetWriteDeadline(time.Time) error { return nil }

// captures runs n captures into out until the returned function.
func captures(tb testing.TB, h *Hub, n int, q Request, out *nowhere) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range n {
		s, err := h.Start(q)
		require.NoError(tb, err)
		all.Go(func() { s.Run(out, ctx.Done(), ctx.Err) })
	}
	return func() {
		cancel()
		if out.full != nil {
			close(out.full)
		}
		all.Wait()
	}
}

// BenchmarkTap is what a batch of 64 frames pays for captures on its way, with two pairs of talkers at once.
func BenchmarkTap(b *testing.B) {
	for _, c := range []struct {
		name     string
		captures int
		stopped  bool // the reader
		q        Request
	}{
		{"none", 0, false, Request{}},
		{"one", 1, false, Request{}},
		{"one-of-others", 1, false, Request{Clients: []uint64{99}}},
		{"one-stopped", 1, true, Request{}},
		{"one-snaplen-96", 1, false, Request{SnapLen: 96}},
		{"one-filter", 1, false, Request{Filter: accept88b5}},
		{"four", 4, false, Request{}},
		{"four-stopped", 4, true, Request{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := newHub(Options{})
			out := &nowhere{}
			if c.stopped {
				out.full = make(chan struct{})
			}
			defer captures(b, h, c.captures, c.q, out)()
			lengths := make([]int, 64)
			for i := range lengths {
				lengths[i] = 1514
			}
			frames := batch(0, lengths...)
			b.SetBytes(int64(frames.DataLen()))
			b.ReportAllocs()
			b.ResetTimer()
			var pair sync.WaitGroup
			for p := range uint64(2) {
				pair.Go(func() {
					for range (b.N + 1) / 2 {
						h.FromClient(1+2*p, frames)
						h.ToClient(2+2*p, frames)
					}
				})
			}
			pair.Wait()
		})
	}
}

// TestNoAllocation: nothing on the frames' way allocates, whatever the reader does.
func TestNoAllocation(t *testing.T) {
	for name, stopped := range map[string]bool{"read": false, "not read": true} {
		t.Run(name, func(t *testing.T) {
			r := newRing(memory, frame.MaxLen)
			b := batch(0, 60, 1514)
			s := Session{ring: r, lost: map[uint64]uint64{}}
			assert.Zero(t, testing.AllocsPerRun(10_000, func() {
				r.put(1, fromClient, b)
				r.put(2, toClient, b)
				r.put(9, toClient, b)
				if !stopped {
					s.each(func(record) {})
				}
			}))
		})
	}
}
