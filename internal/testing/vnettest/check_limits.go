// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// checkFrameSizes: frames from 14 bytes up to the port's MaxFrame arrive as they are, neither padded nor cut, by unicast
// and by broadcast.
func checkFrameSizes(l *lan) {
	a, b, c := l.three()
	limit := a.port.Info().MaxFrame
	require.LessOrEqual(l.t, limit, frame.MaxLen, "PortInfo.MaxFrame")
	tag := uint32(0)
	for _, n := range []int{14, 15, 17, 18, 42, 59, 60, 61, 1513, 1514, 1515, 2048, 9014, 16384, 32768, 32769, 65550, limit - 1, limit} {
		if n > limit {
			continue
		}
		for _, dst := range [][]byte{b.mac, fakeguest.Broadcast} {
			tag++
			want := []seen{a.expect(dst, tag, n)}
			if n < 18 {
				want[0].tag = 0
			}
			a.send(a.toMAC(dst, tag, n))
			l.until(fmt.Sprintf("a frame of %d bytes", n), func() bool { return b.in.count() > 0 })
			assert.Equal(l.t, want, b.in.take())
			if dst[0]&1 != 0 {
				l.until(fmt.Sprintf("a broadcast of %d bytes", n), func() bool { return c.in.count() > 0 })
				assert.Equal(l.t, want, c.in.take())
			}
		}
	}
}

// checkSinkMaxFrame: a sink never gets a frame above its MaxFrame, not even a cut one, and gets all others of the batch
// in order, by unicast and by broadcast.
func checkSinkMaxFrame(l *lan) {
	a := l.attach("A", nil)
	limit := a.port.Info().MaxFrame
	all := []*station{a}
	for _, m := range []int{60, frame.MaxEthernetLen, frame.MaxStreamLen, frame.MaxLen} {
		all = append(all, l.attach(fmt.Sprintf("%d bytes", m), func(in *inbox) { in.max = m }))
	}
	l.settle(all...)
	sizes := []int{42, 1514, 60, 1515, 61, 2000, 18, 32769, 32768, 50, frame.MaxLen, 59}
	for _, dst := range all[1:] {
		checkCut(l, all, dst, sizes, limit, true)
	}
	checkCut(l, all, nil, sizes, limit, false)
}

// checkCut sends one frame of each size in one batch, to dst or to all.
func checkCut(l *lan, all []*station, dst *station, sizes []int, limit int, unicast bool) {
	src, mac := all[0], fakeguest.Broadcast
	if unicast {
		mac = dst.mac
	}
	var frames [][]byte
	want := map[*station][]seen{}
	for i, n := range sizes {
		if n > limit {
			continue
		}
		tag := uint32(i + 1)
		frames = append(frames, src.toMAC(mac, tag, n))
		for _, s := range all[1:] {
			if n <= s.in.max && (!unicast || s == dst) {
				want[s] = append(want[s], src.expect(mac, tag, n))
			}
		}
	}
	src.send(frames...)
	for _, s := range all {
		l.await(s, len(want[s]))
	}
	l.settle(all...)
	for _, s := range all {
		assert.Equal(l.t, want[s], s.in.take(), "to %s, at the sink for %s", mac, s.name)
	}
}

// checkBatchIsBorrowed: Send neither writes to the batch nor uses it after it returned. (Every station checks that with
// every Send; here each frame is waited for.)
func checkBatchIsBorrowed(l *lan) {
	a, b, c := l.three()
	for i := range 20 {
		tag := uint32(i + 1)
		a.send(a.to(b, tag, 200), a.toMAC(fakeguest.Broadcast, tag+100, 1514), a.to(c, tag, 1514))
		l.until("three frames", func() bool { return b.in.count() >= 2 && c.in.count() >= 2 })
		l.arrived(b, a.expect(b.mac, tag, 200), a.expect(fakeguest.Broadcast, tag+100, 1514))
		l.arrived(c, a.expect(fakeguest.Broadcast, tag+100, 1514), a.expect(c.mac, tag, 1514))
	}
}

// checkAddressMoves: an address belongs to the port that used it last, at once, and comes back with its owner's next
// frame.
func checkAddressMoves(l *lan) {
	a, b, c := l.three()
	roaming := newMAC()
	tag := uint32(0)
	for range 3 {
		for _, owner := range []*station{a, c} {
			tag += 2
			owner.send(testFrame(b.mac, roaming, tag, 60))
			l.until("a frame from the new place", func() bool { return b.in.count() > 0 })
			b.send(b.toMAC(roaming, tag+1, 80))
			l.await(owner, 1)
			l.settle(a, b, c)
			b.in.take()
			for _, s := range []*station{a, c} {
				var want []seen
				if s == owner {
					want = []seen{b.expect(roaming, tag+1, 80)}
				}
				assert.Equal(l.t, want, s.in.take(), "the address is at %s; what %s got", owner.name, s.name)
			}
		}
	}
}

// checkAddressLeavesWithPort: when a port has gone, its address is free: frames to it do not vanish into the old port, and
// a new port with the same address gets them from its first frame on.
func checkAddressLeavesWithPort(l *lan) {
	a, b, c := l.three()
	roaming := newMAC()
	a.send(testFrame(fakeguest.Broadcast, roaming, 1, 60))
	l.settle(a, b, c)
	a.close()
	b.in.take()
	c.in.take()
	b.send(b.toMAC(roaming, 2, 80))
	l.await(c, 1)
	l.settle(b, c)
	assert.Equal(l.t, []seen{b.expect(roaming, 2, 80)}, c.in.take(), "an address that nobody has is flooded")

	again := l.attach("A again", nil)
	again.send(testFrame(b.mac, roaming, 3, 60))
	l.until("a frame from the new port", func() bool { return b.in.count() > 0 })
	b.send(b.toMAC(roaming, 4, 80))
	l.await(again, 1)
	l.settle(b, c, again)
	assert.Equal(l.t, []seen{b.expect(roaming, 4, 80)}, again.in.take())
	assert.Empty(l.t, c.in.take())
}

// checkDeafSink: a client that takes nothing costs the others nothing, even in the same batch.
func checkDeafSink(l *lan) {
	a, b, c := l.three()
	deaf := l.attach("deaf", func(in *inbox) { in.deaf = true })
	deaf.send(deaf.toMAC(fakeguest.Broadcast, 1, 60))
	for _, s := range []*station{a, b, c} {
		l.until("the deaf station's frame", func() bool { return s.in.count() > 0 })
		s.in.take()
	}
	for r := range 30 {
		var frames [][]byte
		var want []seen
		for i := range window {
			tag := uint32(r*window + i + 1)
			frames = append(frames, a.to(deaf, tag, 1514), a.to(b, tag, 200))
			want = append(want, a.expect(b.mac, tag, 200))
		}
		a.send(frames...)
		l.until("the other station's share", func() bool { return b.in.count() >= len(want) })
		require.Equal(l.t, want, b.in.take())
	}
	assert.Empty(l.t, c.in.take())
	assertAlive(l, deaf)
}

// checkHeldSink: while a sink is being called, nothing that other clients need is locked: unicast between them, attaching
// and closing go on. A sink does not block; this one is held to make visible for whom it would keep a lock.
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
	held.send(held.to(a, 1, 60))
	l.until("the first frame of the station to hold", func() bool { return a.in.count() > 0 })
	go func() {
		defer close(sent)
		a.send(a.to(held, 2, 60))
	}()
	defer func() {
		close(release)
		l.attempt("Send to the held sink", func() { <-sent })
	}()
	select {
	case <-entered:
	case <-time.After(l.patience):
		require.Fail(l.t, "lost", "no frame reached the station to hold")
	}
	l.returns("Send between two other stations", func() { flow(l, b, c, 300) })
	l.returns("Attach and Close of another port", func() {
		s, err := l.tryAttach(context.Background(), "D", nil)
		if assert.NoError(l.t, err) {
			s.close()
		}
	})
}
