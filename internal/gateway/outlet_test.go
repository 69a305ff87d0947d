// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// TestOutletManySenders: each frame leaves once, in the order of its sender, and one goroutine at a time sends.
func TestOutletManySenders(t *testing.T) {
	const senders, each = 8, 3000
	var next [senders]uint32
	var sent, sending, turns atomic.Int32
	o := newOutlet(frame.MinLen+defaultMTU, func(wire []byte, wait bool) (int, error) {
		if wait { // the socket takes a part, and without waiting nothing at all now and then
			wire = wire[:(len(wire)+1)/2/64*64+min(64, len(wire))]
		} else if turns.Add(1)%3 == 0 {
			return 0, nil
		}
		b := frame.NewBatch(wire, 0)
		assert.Equal(t, int32(1), sending.Add(1), "senders at a time")
		for it := b.Iter(); it.Next(); {
			from, seq := it.Frame()[14], binary.BigEndian.Uint32(it.Frame()[15:])
			assert.Equal(t, next[from], seq)
			next[from] = seq + 1
			sent.Add(1)
		}
		sending.Add(-1)
		return len(wire), nil
	}, &drops{})
	var run, wg sync.WaitGroup
	run.Go(o.run)
	for from := range senders {
		wg.Go(func() {
			f := make([]byte, 60)
			f[14] = byte(from)
			for seq := range uint32(each) {
				binary.BigEndian.PutUint32(f[15:], seq)
				o.put(len(f), f[:20], f[20:])
				if from%2 == 0 {
					o.drain() // as with a large packet
				}
			}
		})
	}
	wg.Wait()
	assert.Eventually(t, func() bool { return sent.Load() == senders*each }, patience, time.Millisecond)
	close(o.wake)
	run.Wait()
}
