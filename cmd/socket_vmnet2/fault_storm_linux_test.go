// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// stormRate and stormBurst are what one client may flood, in frames a second and at once: rule 6 of the design.
const (
	stormRate  = 50_000
	stormBurst = 5_000
)

// counted has a guest count the frames with text and throw them away.
func counted(t *testing.T, g *fakeguest.Guest, text string) *atomic.Uint64 {
	t.Helper()
	n := &atomic.Uint64{}
	g.SetTap(func(f []byte) bool {
		if !bytes.HasPrefix(f[frame.MinLen:], []byte(text)) {
			return false
		}
		n.Add(1)
		return true
	})
	return n
}

// A bridging guest has two interfaces, and a bridge between them: what comes by one goes out by the other.
type bridging struct {
	links [2]fakeguest.Link
	cut   atomic.Bool
	// carried counts what it passed on.
	carried atomic.Uint64
}

func (b *bridging) start(t *testing.T) {
	t.Helper()
	var out [2]chan []byte
	for i := range out {
		out[i] = make(chan []byte, 1024)
		go func() {
			var batch [][]byte
			for f := range out[i] {
				for batch = append(batch[:0], f); len(batch) < 64 && len(out[i]) > 0; {
					batch = append(batch, <-out[i])
				}
				_ = b.links[i].Send(batch...)
				b.carried.Add(uint64(len(batch)))
			}
		}()
	}
	for i, l := range b.links {
		require.NoError(t, l.Start(func(f []byte) {
			if b.cut.Load() {
				return
			}
			select {
			case out[1-i] <- bytes.Clone(f):
			default: // its own queue is full, as those of real ones
			}
		}, func(error) {}))
	}
}

// TestLoop: a guest that bridges two interfaces on the same network makes a loop, in which each broadcast goes round for
// ever. It has the storm budget of both and no more; the gateway and the others answer, and when it is cut all is quiet.
func TestLoop(t *testing.T) {
	p := startOpen(t)
	s1, s2, starter, witness := over(t, p.stream()), over(t, p.stream()), over(t, p.stream()), over(t, p.stream())
	gateway := netip.MustParseAddr("192.168.105.1")
	for _, g := range []*fakeguest.Guest{s1, s2, starter} {
		_, err := g.Configure()
		require.NoError(t, err)
		_, err = g.Ping(gateway, 56)
		require.NoError(t, err)
	}
	_, err := s1.Ping(s2.Addr().Addr(), 56) // they know each other's addresses
	require.NoError(t, err)
	_, err = s2.Ping(s1.Addr().Addr(), 56)
	require.NoError(t, err)
	came := counted(t, witness, "round")
	witnessMAC := witness.MAC()
	require.NoError(t, witness.Send(testFrame(fakeguest.Broadcast, witnessMAC, "here")))

	loop := &bridging{links: [2]fakeguest.Link{dialWay(t, p.stream()), dialWay(t, p.attach(proto.Datagram))}}
	for i, l := range loop.links { // their ports start
		require.NoError(t, l.Send(testFrame(witnessMAC, net.HardwareAddr{2, 0, 0, 0, 0xb, byte(i)}, "hello")))
	}
	p.describes(t, func(s status.Status) bool { // and both are clients with an address by then
		n := 0
		for _, c := range s.Clients {
			if c.State == status.StateRunning && strings.HasPrefix(c.MAC, "02:00:00:00:0b:") {
				n++
			}
		}
		return n == len(loop.links)
	})
	loop.start(t)
	began, used, lines := time.Now(), p.cpu(t), strings.Count(p.stderr.String(), "\n")
	for i := range uint32(100) { // a hundred frames go round
		f := testFrame(fakeguest.Broadcast, starter.MAC(), "round")
		require.NoError(t, starter.Send(binary.BigEndian.AppendUint32(f, i)))
	}
	pings := 0
	for ; time.Since(began) < 2*time.Second || came.Load() <= 1000 && time.Since(began) < patience; pings++ {
		answers(t, s1, gateway, "the gateway")
		answers(t, s1, s2.Addr().Addr(), "another guest")
	}
	so := came.Load() // before the time is taken
	took := time.Since(began)
	most := 2*uint64(took.Seconds()*stormRate) + 2*stormBurst
	t.Logf("the loop carried %d frames in %v, %d came to another client, at most %d; %d pings; %v of processor time",
		loop.carried.Load(), took.Round(time.Millisecond), so, most, pings, p.cpu(t)-used)
	assert.Greater(t, so, uint64(1000), "there was a loop")
	assert.LessOrEqual(t, so, most)
	loop.cut.Store(true)
	require.Eventually(t, func() bool {
		before := came.Load()
		time.Sleep(300 * time.Millisecond)
		return came.Load() == before
	}, patience, time.Millisecond, "it is cut")
	assert.Less(t, strings.Count(p.stderr.String(), "\n")-lines, 30, "log lines")
	require.NoError(t, starter.Announce()) // its address was seen all over the place
	for _, g := range []*fakeguest.Guest{s1, s2, starter} {
		_, err := g.Ping(gateway, 56)
		assert.NoError(t, err)
	}
	_, err = s1.Ping(starter.Addr().Addr(), 56)
	assert.NoError(t, err)
}

// answers waits until a guest answers another one's ping.
func answers(t *testing.T, g *fakeguest.Guest, to netip.Addr, name string) {
	t.Helper()
	require.Eventually(t, func() bool { _, err := g.Ping(to, 56); return err == nil }, 2*patience, time.Millisecond, name)
}
