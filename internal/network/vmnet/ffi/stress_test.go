// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim && !darwin

package ffi_test

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// garbage allocates and collects until the returned function is called.
func garbage() (end func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		var keep [][]byte
		for {
			select {
			case <-stop:
				return
			default:
				if keep = append(keep, make([]byte, 64<<10)); len(keep) > 64 {
					keep = nil
					runtime.GC()
					time.Sleep(time.Millisecond) // the test is of something else
				}
			}
		}
	})
	return func() { close(stop); wg.Wait() }
}

// TestManyPackets sends 200,000 frames of all sizes from one interface to another, each batch from a fresh buffer of
// Go's heap, while the collector runs all the time. Every wake-up comes from a thread of C's. None is lost, doubled or
// damaged.
func TestManyPackets(t *testing.T) {
	const total = uint64(200_000)
	const batch, window = 32, 256 // frames; 512 KiB at most are under way, half of what the simulator queues
	s := open(t, vmnetsim.Full)
	x, y := s.start(t), s.start(t)
	require.NoError(t, y.Notify(true))
	defer garbage()()

	var got atomic.Uint64
	room := make(chan struct{}, 1)
	var wg sync.WaitGroup
	r := api.NewReader(64, 1514)
	wg.Go(func() {
		for got.Load() < total {
			if !assert.Equal(t, api.Success, y.Read(r)) {
				return
			}
			b, odd := r.Batch()
			assert.Zero(t, odd)
			n := got.Load()
			for it := b.Iter(); it.Next(); n++ {
				if !sound(it.Frame(), n) || len(it.Frame()) != 22+int(n%1493) {
					assert.Fail(t, "lost or damaged", "frame %d is % x of %d bytes; %+v", n, it.Frame()[:22], len(it.Frame()), s.c.Gauges())
					return
				}
			}
			got.Store(n)
			select {
			case room <- struct{}{}:
			default:
			}
			if b.Len() > 0 {
				continue
			}
			if !waitFor(t, y) {
				t.Logf("%d of %d frames", n, total)
				return
			}
		}
	})
	w := api.NewWriter(batch)
	for seq := uint64(0); seq < total; {
		n := min(batch, total-seq)
		for seq+n-got.Load() > window {
			select {
			case <-room:
			case <-time.After(patience):
				require.Fail(t, "the reader is stuck", "%d written, %d read", seq, got.Load())
			}
		}
		var buf []byte
		for k := range n {
			size := 22 + int((seq+k)%1493)
			at := len(buf)
			buf = slices.Grow(buf, frame.PrefixLen+size)[:at+frame.PrefixLen+size]
			frame.PutPrefix(buf[at:], size)
			putNumbered(buf[at+frame.PrefixLen:], seq+k)
		}
		fill(w, frame.NewBatch(buf, int(n)))
		buf = nil // only w has it now
		require.Equal(t, api.Success, x.Write(w))
		w.End()
		seq += n
	}
	wg.Wait()
	g := s.c.Gauges()
	t.Logf("%d frames, %d reads, %d writes, %d events", got.Load(), s.c.Calls()["vmnet_read"], s.c.Calls()["vmnet_write"], g.Events)
	assert.Zero(t, g.FramesDropped)
}
