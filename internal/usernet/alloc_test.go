// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/bridge"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// TestQueuesAllocateNothing: frames go from the bridge to the gateway's stack, and back, through memory that is used again, also when
// each burst finds the queue empty.
func TestQueuesAllocateNothing(t *testing.T) {
	gateway := [6]byte{2, 0, 0, 0, 0, 1}
	f := make([]byte, 1514)
	copy(f, gateway[:])
	f[12], f[13] = 0x08, 0x00
	var wire []byte
	const burst = 64
	for range burst {
		wire = frame.Append(wire, f)
	}
	var d drops
	in := newInlet(gateway[:], len(f), &d)
	taken := 0
	toStack := func() {
		for src := range bridge.PortID(3) {
			in.DeliverFrom(src+1, frame.NewBatch(wire, burst))
		}
		for len(in.turns) > 0 {
			c := in.next()
			taken += c.n
			in.free(c)
		}
	}
	for range 10 {
		toStack()
	}
	assert.Zero(t, testing.AllocsPerRun(100, toStack), "to the stack")
	assert.Equal(t, 111*3*burst, taken)

	sent := 0
	out := newOutlet(len(f), func(b frame.Batch) { sent += b.Len() }, &d)
	fromStack := func() {
		for range burst {
			out.put(len(f), f[:14], f[14:])
		}
		// As run does it, which belongs to another goroutine.
		out.mu.Lock()
		b := frame.NewBatch(out.buf, out.n)
		out.buf, out.n = out.buf[:0], 0
		out.mu.Unlock()
		out.send(b)
	}
	fromStack()
	assert.Zero(t, testing.AllocsPerRun(100, fromStack), "from the stack")
	assert.Equal(t, 102*burst, sent)
	assert.Zero(t, d.queueFull.Load()+d.outFull.Load()+d.unwanted.Load()+d.malformed.Load())
}
