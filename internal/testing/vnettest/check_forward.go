// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// window is how many frames are on their way to one station at most, so that no network has a reason to drop.
const window = 64

// checkInfo: what the network and a port tell about themselves is possible and consistent, and a new port is alive.
func checkInfo(l *lan) {
	i := l.network.Info()
	assert.NotEmpty(l.t, i.Backend)
	assert.NotEmpty(l.t, i.Mode)
	assert.GreaterOrEqual(l.t, i.MaxFrame, frame.MaxEthernetLen)
	assert.LessOrEqual(l.t, i.MaxFrame, frame.MaxLen)
	assert.GreaterOrEqual(l.t, i.MTU, 576, "the least MTU of IPv4 hosts")
	assert.LessOrEqual(l.t, i.MTU+frame.MinLen, i.MaxFrame)
	s := l.attach("A", nil)
	p := s.port.Info()
	assert.GreaterOrEqual(l.t, p.MaxFrame, frame.MaxEthernetLen)
	assert.LessOrEqual(l.t, p.MaxFrame, i.MaxFrame)
	assert.LessOrEqual(l.t, p.MTU+frame.MinLen, p.MaxFrame)
	assert.Contains(l.t, []int{0, 6}, len(p.MAC))
	assert.Empty(l.t, s.port.Stats().Drops)
	assertAlive(l, s)
}

// assertAlive checks that a port has not died.
func assertAlive(l *lan, s *station) {
	l.t.Helper()
	select {
	case <-s.port.Done():
		assert.Fail(l.t, "dead", "Done of %s is closed", s.name)
	default:
	}
	assert.NoError(l.t, s.port.Err(), "Err of %s", s.name)
}

// checkForward: batches of all kinds, from one station after the other, reach those that they are for, each frame once, as it is, neither
// padded nor cut, in order, and come back to no sender: to addresses that are known, behind the sender, or of no station, to
// broadcast and multicast, link-local groups included, from an address that moves between stations, and up to the longest frame
// that the network carries, for stations that take less.
func checkForward(l *lan) {
	a, b, c := l.three()
	stations := []*station{a, b, c, l.attach("D, silent so far", nil)}
	for _, m := range []int{60, frame.MaxEthernetLen, frame.MaxStreamLen} {
		stations = append(stations, l.attach(fmt.Sprintf("%d bytes", m), func(in *inbox) { in.max = m }))
	}
	a.send(a.toMAC(fakeguest.Broadcast, 60))
	l.compare()
	l.settle() // from here on all are known
	limit := a.port.Info().MaxFrame
	require.LessOrEqual(l.t, limit, frame.MaxLen, "PortInfo.MaxFrame")
	sizes := []int{14, 15, 17, 18, 42, 59, 60, 61, 1513, 1514, 1515, 2048, 9014, 16384, 32768, 32769, 65550, limit - 1, limit}
	sizes = slices.DeleteFunc(sizes, func(n int) bool { return n > limit })
	roaming := newMAC()
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 100 {
		to := []net.HardwareAddr{
			fakeguest.Broadcast, net.HardwareAddr("\x01\x00\x5e\x00\x00\xfb"), net.HardwareAddr("\x33\x33\x00\x00\x00\x01"),
			net.HardwareAddr("\x01\x80\xc2\x00\x00\x0e"), newMAC(), roaming,
		}
		for _, s := range stations {
			to = append(to, s.mac)
		}
		s := stations[r.IntN(len(stations))]
		src := s.mac
		if round%4 == 0 {
			src = roaming
		}
		var frames [][]byte
		for bytes := 0; len(frames) < window && bytes < window*1514; bytes += len(frames[len(frames)-1]) {
			n := 14 + r.IntN(1501)
			if r.IntN(4) == 0 {
				n = sizes[r.IntN(len(sizes))]
			}
			frames = append(frames, testFrame(to[r.IntN(len(to))], src, n))
		}
		s.send(frames[:1+r.IntN(len(frames))]...)
		l.settle()
	}
}

// flow sends count frames from src to dst, at most a window at a time, and checks that they come complete and in order.
func flow(l *lan, src, dst *station, count int) {
	l.t.Helper()
	for sent := 0; sent < count; {
		var frames [][]byte
		for range 1 + sent%window {
			sent++
			frames = append(frames, src.to(dst, 18+sent*37%1497))
		}
		src.send(frames...)
		l.compare()
	}
}

// checkManyToOne: when several stations send to one at the same time, nothing is lost and each one's order is kept.
func checkManyToOne(l *lan) {
	a, b, c := l.three()
	d := l.attach("D", nil)
	l.settle()
	for range 20 {
		var wg sync.WaitGroup
		for _, s := range []*station{a, b, c} {
			wg.Go(func() {
				for i := range 16 {
					s.send(s.to(d, 64+i))
				}
			})
		}
		wg.Wait()
		l.compare()
	}
}

// checkAddressLeavesWithPort: when a port has gone, its address is free: frames to it do not vanish into the old port, and
// a new port with the same address gets them from its first frame on.
func checkAddressLeavesWithPort(l *lan) {
	a, b, _ := l.three()
	roaming := newMAC()
	a.send(testFrame(fakeguest.Broadcast, roaming, 60))
	l.settle()
	a.close()
	b.send(b.toMAC(roaming, 80)) // flooded
	l.settle()

	again := l.attach("A again", nil)
	again.send(testFrame(b.mac, roaming, 60))
	l.compare()
	b.send(b.toMAC(roaming, 80))
	l.settle()
}

// checkDeafSink: a client that takes nothing costs the others nothing, even in the same batch.
func checkDeafSink(l *lan) {
	a, b, _ := l.three()
	deaf := l.attach("deaf", func(in *inbox) { in.deaf = true })
	deaf.send(deaf.toMAC(fakeguest.Broadcast, 60))
	l.compare()
	for range 30 {
		var frames [][]byte
		for range window {
			frames = append(frames, a.to(deaf, 1514), a.to(b, 200))
		}
		a.send(frames...)
		l.compare()
	}
	assertAlive(l, deaf)
}

// checkHeldSink: while a sink is being called, nothing that other clients need is locked: unicast between them, attaching
// and closing go on. A sink does not block; this one is held to show which others a lock would hold up.
func checkHeldSink(l *lan) {
	a, b, c := l.three()
	entered, release, sent := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	held := l.attach("held", func(in *inbox) {
		in.hold = func() {
			select {
			case entered <- struct{}{}:
			default:
			}
			<-release
		}
	})
	held.send(held.to(a, 60))
	l.compare()
	go func() {
		defer close(sent)
		a.send(a.to(held, 60))
	}()
	defer func() {
		close(release)
		l.attempt("Send to the held sink", func() { <-sent })
	}()
	l.returns("the delivery to the station to hold", func() { <-entered })
	l.returns("Send between two other stations", func() { flow(l, b, c, 300) })
	l.returns("Attach and Close of another port", func() {
		s, err := l.tryAttach(context.Background(), "D", nil)
		if assert.NoError(l.t, err) {
			s.close()
		}
	})
}
