// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

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
	select {
	case <-entered:
	case <-time.After(patience):
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
