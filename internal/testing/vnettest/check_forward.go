// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"net"
	"sync"

	"github.com/stretchr/testify/assert"

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

// checkUnicast: a frame to a known address reaches its owner, once, and no other station.
func checkUnicast(l *lan) {
	a, b, c := l.three()
	for _, way := range [][2]*station{{a, b}, {a, c}, {b, a}, {b, c}, {c, a}, {c, b}} {
		for range 10 {
			way[0].send(way[0].to(way[1], 100))
		}
	}
	l.settle()
}

// checkFlood sends frames to addresses from each station in turn: all others get each once, also those that never sent, and the
// sender does not.
func checkFlood(l *lan, to ...net.HardwareAddr) {
	a, b, c := l.three()
	l.attach("D, silent so far", nil)
	for _, dst := range to {
		for _, src := range []*station{a, b, c} {
			src.send(src.toMAC(dst, 100), src.toMAC(dst, 1514))
			l.settle()
		}
	}
}

// checkBroadcast: a broadcast reaches all other stations and does not come back.
func checkBroadcast(l *lan) { checkFlood(l, fakeguest.Broadcast) }

// checkMulticast: the same for multicast of IPv4, IPv6 and 802.1, link-local groups included.
func checkMulticast(l *lan) {
	checkFlood(l, net.HardwareAddr("\x01\x00\x5e\x00\x00\xfb"), net.HardwareAddr("\x33\x33\x00\x00\x00\x01"),
		net.HardwareAddr("\x01\x80\xc2\x00\x00\x0e"))
}

// checkUnknownUnicast: a frame to an address that no station has used reaches all other stations and does not come back.
func checkUnknownUnicast(l *lan) { checkFlood(l, newMAC()) }

// checkNoHairpin: a frame to an address behind the sender's own port goes nowhere.
func checkNoHairpin(l *lan) {
	a, _, _ := l.three()
	second := newMAC() // another station behind A's port
	a.send(testFrame(fakeguest.Broadcast, second, 60))
	l.settle()
	a.send(a.to(a, 100), a.toMAC(second, 100))
	l.settle()
}

// checkMixedBatch: the frames of one batch go where each of them belongs, in order.
func checkMixedBatch(l *lan) {
	a, b, c := l.three()
	var frames [][]byte
	for i := range 60 {
		dst := []net.HardwareAddr{b.mac, b.mac, c.mac, fakeguest.Broadcast, b.mac, c.mac}[i%6]
		frames = append(frames, a.toMAC(dst, 18+i*20))
	}
	a.send(frames...)
	l.settle()
}

// checkOrder: 2,000 frames in batches of changing length arrive complete and in the order in which they were sent.
func checkOrder(l *lan) {
	a, b, _ := l.three()
	flow(l, a, b, 2000)
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
