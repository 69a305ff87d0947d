// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"bytes"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// TestRelayAllocatesNothing carries frames all the way, link to session to bridge to link, and counts what the process
// allocates meanwhile. What starting a drainer or growing a stack costs does not grow with the frames.
func TestRelayAllocatesNothing(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.dial(t), r.dial(t)
	r.attached(t, 2)
	say(t, b, 2, "hello")
	assert.Equal(t, "hello", hear(t, a))

	var got atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 256<<10)
		for {
			n, err := b.Read(buf)
			got.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	const burst, rounds = 64, 500
	f := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5}, make([]byte, 1500)...)
	batch := bytes.Repeat(frame.Append(nil, f), burst)
	send := func(rounds int) {
		for range rounds {
			want := got.Load() + int64(len(batch))
			_, err := a.Write(batch)
			require.NoError(t, err)
			for got.Load() < want {
				runtime.Gosched()
			}
		}
	}
	send(50) // the first frames grow stacks and free lists
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	send(rounds)
	runtime.ReadMemStats(&after)
	perFrame := float64(after.Mallocs-before.Mallocs) / (burst * rounds)
	assert.Less(t, perFrame, 0.01, "%d allocations in %d frames", after.Mallocs-before.Mallocs, burst*rounds)
	require.NoError(t, b.Close())
	<-done
}
