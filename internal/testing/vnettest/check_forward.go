// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"fmt"
	"net"
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

// checkUnicast: a frame to a known address reaches its owner, once, and no other station.
func checkUnicast(l *lan) {
	a, b, c := l.three()
	all := []*station{a, b, c}
	want := map[*station][]seen{}
	tag := uint32(0)
	for _, src := range all {
		for _, dst := range all {
			if src == dst {
				continue
			}
			for range 10 {
				tag++
				src.send(src.to(dst, tag, 100))
				want[dst] = append(want[dst], src.expect(dst.mac, tag, 100))
			}
		}
	}
	for _, s := range all {
		l.await(s, len(want[s]))
	}
	l.settle(all...)
	for _, s := range all {
		assert.ElementsMatch(l.t, want[s], s.in.take(), "what %s got", s.name)
	}
}

// checkFlood sends frames to an address from each station in turn: all others get each once, the sender does not.
func checkFlood(l *lan, dst net.HardwareAddr) {
	a, b, c := l.three()
	d := l.attach("D, silent so far", nil)
	all := []*station{a, b, c, d}
	for i, src := range []*station{a, b, c} {
		tag := uint32(i*10 + 1)
		src.send(src.toMAC(dst, tag, 100), src.toMAC(dst, tag+1, 1514))
		for _, s := range all {
			if s != src {
				l.await(s, 2)
			}
		}
		l.settle(all...)
		want := []seen{src.expect(dst, tag, 100), src.expect(dst, tag+1, 1514)}
		for _, s := range all {
			if s == src {
				assert.Empty(l.t, s.in.take(), "%s got back its own frame to %s", s.name, dst)
				continue
			}
			assert.Equal(l.t, want, s.in.take(), "from %s to %s, at %s", src.name, dst, s.name)
		}
	}
}

// checkBroadcast: a broadcast reaches all other stations, also those that never sent, and does not come back.
func checkBroadcast(l *lan) { checkFlood(l, fakeguest.Broadcast) }

// checkMulticast: the same for multicast of IPv4, IPv6 and 802.1, link-local groups included.
func checkMulticast(l *lan) {
	a, b, c := l.three()
	for i, dst := range []string{"\x01\x00\x5e\x00\x00\xfb", "\x33\x33\x00\x00\x00\x01", "\x01\x80\xc2\x00\x00\x0e"} {
		tag := uint32(i + 1)
		a.send(a.toMAC(net.HardwareAddr(dst), tag, 100))
		l.settle(a, b, c)
		want := []seen{a.expect(net.HardwareAddr(dst), tag, 100)}
		assert.Empty(l.t, a.in.take(), "back to the sender")
		assert.Equal(l.t, want, b.in.take())
		assert.Equal(l.t, want, c.in.take())
	}
}

// checkUnknownUnicast: a frame to an address that no station has used reaches all other stations and does not come back.
func checkUnknownUnicast(l *lan) { checkFlood(l, newMAC()) }

// checkNoHairpin: a frame to an address behind the sender's own port goes nowhere.
func checkNoHairpin(l *lan) {
	a, b, c := l.three()
	second := newMAC() // another station behind A's port
	a.send(testFrame(fakeguest.Broadcast, second, 1, 60))
	l.settle(a, b, c)
	b.in.take()
	c.in.take()
	a.send(a.to(a, 2, 100), a.toMAC(second, 3, 100))
	l.settle(a, b, c)
	for _, s := range []*station{a, b, c} {
		assert.Empty(l.t, s.in.take(), "at %s", s.name)
	}
}

// checkMixedBatch: the frames of one batch go where each of them belongs, in order.
func checkMixedBatch(l *lan) {
	a, b, c := l.three()
	var frames [][]byte
	var toB, toC []seen
	for i := range 60 {
		tag, n := uint32(i+1), 18+i*20
		switch i % 6 {
		case 0, 1, 4:
			frames = append(frames, a.to(b, tag, n))
			toB = append(toB, a.expect(b.mac, tag, n))
		case 2, 5:
			frames = append(frames, a.to(c, tag, n))
			toC = append(toC, a.expect(c.mac, tag, n))
		case 3:
			frames = append(frames, a.toMAC(fakeguest.Broadcast, tag, n))
			toB = append(toB, a.expect(fakeguest.Broadcast, tag, n))
			toC = append(toC, a.expect(fakeguest.Broadcast, tag, n))
		}
	}
	a.send(frames...)
	l.await(b, len(toB))
	l.await(c, len(toC))
	l.settle(a, b, c)
	l.arrived(b, toB...)
	l.arrived(c, toC...)
	assert.Empty(l.t, a.in.take())
}

// checkOrder: 2,000 frames in batches of changing length arrive complete and in the order in which they were sent.
func checkOrder(l *lan) {
	a, b, _ := l.three()
	flow(l, a, b, 2000)
}

// flow sends count frames from src to dst, at most a window at a time, and checks that they come complete and in order.
func flow(l *lan, src, dst *station, count int) {
	l.t.Helper()
	tag := uint32(0)
	for sent := 0; sent < count; {
		var frames [][]byte
		var want []seen
		for range 1 + sent%window {
			tag++
			n := 18 + int(tag)*37%1497
			frames = append(frames, src.to(dst, tag, n))
			want = append(want, src.expect(dst.mac, tag, n))
		}
		src.send(frames...)
		sent += len(frames)
		l.until(fmt.Sprintf("%d frames from %s to %s", len(frames), src.name, dst.name),
			func() bool { return dst.in.count() >= len(frames) })
		require.Equal(l.t, want, dst.in.take(), "from %s to %s", src.name, dst.name)
	}
}

// checkManyToOne: when several stations send to one at the same time, nothing is lost and each one's order is kept.
func checkManyToOne(l *lan) {
	a, b, c := l.three()
	d := l.attach("D", nil)
	l.settle(a, b, c, d)
	const rounds, each = 20, 16
	next := map[string]uint32{}
	for r := range rounds {
		var wg sync.WaitGroup
		for _, s := range []*station{a, b, c} {
			wg.Go(func() {
				for i := range each {
					s.send(s.to(d, uint32(r*each+i+1), 64+i))
				}
			})
		}
		wg.Wait()
		l.until("frames of three senders", func() bool { return d.in.count() >= 3*each })
		for _, got := range d.in.take() {
			next[got.src]++
			require.Equal(l.t, next[got.src], got.tag, "order of the frames from %x", got.src)
		}
	}
	for _, s := range []*station{a, b, c} {
		assert.EqualValues(l.t, rounds*each, next[string(s.mac)], "frames from %s", s.name)
	}
}
