// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// batch is n times f, which is made n bytes long.
func batch(frames, size int, f []byte) frame.Batch {
	long := make([]byte, size)
	copy(long, f)
	var wire []byte
	for range frames {
		wire = frame.Append(wire, long)
	}
	return frame.NewBatch(wire, frames)
}

// traffic is frames of all kinds: the packets' lengths are those of their frames.
func traffic(size int) map[string][]byte {
	payload := fmt.Sprintf("%0*d", 2*(size-14-20), 0)
	six := fmt.Sprintf("%0*d", 2*(size-14-40), 0)
	return map[string][]byte{
		"tcp":  ipv4(macA, ipA, "0000", "06", payload),
		"udp":  ipv4(macA, ipA, "0000", "11", "03e8 0035 0008 0000"+payload[16:]),
		"ipv6": ipv6(macA, llA, "06", six),
	}
}

func leasedGuard(tb testing.TB) *Guard {
	r := newRig(tb)
	g := r.Guard(hardware(macA), slog.New(slog.DiscardHandler), nil)
	g.asked.Store(askedKnown | 7)
	g.ToClient(frame.NewBatch(frame.Append(nil, fromServer(macA, ipA, "05", hour)), 1))
	return g
}

// TestNoAllocation: neither what passes nor what is refused costs memory, nor what comes.
func TestNoAllocation(t *testing.T) {
	g := leasedGuard(t)
	var sum int
	pass := func(b frame.Batch) { sum += b.Len() }
	for name, f := range traffic(100) {
		b := batch(8, 100, f)
		assert.Zero(t, testing.AllocsPerRun(100, func() { g.Filter(b, pass) }), name)
	}
	assert.Equal(t, 3*8*101, sum)
	assert.Empty(t, dropArgs(g))
	for name, f := range map[string][]byte{
		"IPv4": says(macA, ipB), "MAC": says(macB, ipA), "ARP": arp(macA, "0002", macA, ipB, ipGW), "IPv6": ipv6(macA, llB, noNext),
	} {
		b := frame.NewBatch(frame.Append(nil, f), 1)
		assert.Zero(t, testing.AllocsPerRun(100, func() { g.Filter(b, pass) }), name)
	}
	ack := frame.NewBatch(frame.Append(nil, fromServer(macB, ipA, "05", hour)), 1)
	assert.Zero(t, testing.AllocsPerRun(100, func() { g.ToClient(ack) }))
}
