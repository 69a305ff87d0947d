// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// Checks that try something many times stop after roundsTime, but not before fewRounds: a daemon that waits for what a client
// may still send takes a tenth of a second for each.
const (
	fewRounds  = 5
	roundsTime = 250 * time.Millisecond
)

// lateness is how long the checks wait for a delivery that must not come.
const lateness = 5 * time.Millisecond

// checkFirstFrame: a port carries from the moment Attach returns: its very first frame is not lost.
func checkFirstFrame(l *lan) {
	a, _, _ := l.three()
	for range 10 {
		s := l.attach("new", nil)
		s.send(s.to(a, 60))
		l.compare()
		a.send(a.to(s, 60))
		l.settle()
		s.close()
	}
}

// checkAttachContext: the context bounds Attach, not the life of the port.
func checkAttachContext(l *lan) {
	l.attach("A", nil)
	ctx, cancel := context.WithCancel(context.Background())
	b, err := l.tryAttach(ctx, "B", nil)
	cancel()
	require.NoError(l.t, err)
	time.Sleep(lateness)
	l.settle()
	assertAlive(l, b)
}

// checkSendAfterClose: frames sent after Close go nowhere and are counted, each.
func checkSendAfterClose(l *lan) {
	a, b, c := l.three()
	a.close()
	before := a.port.Stats().Drops[network.DropClosed]
	a.send(a.to(b, 60), a.toMAC(fakeguest.Broadcast, 60), a.to(c, 1514))
	a.send(a.to(a, 60))
	assert.EqualValues(l.t, 4, a.port.Stats().Drops[network.DropClosed]-before, "frames counted as %s", network.DropClosed)
	l.settle()
}

// checkCloseWaits: Close returns only when the deliveries in flight have ended, for each of several callers.
func checkCloseWaits(l *lan) {
	a := l.attach("A", nil)
	for range 5 {
		var inside atomic.Int32
		var calling sync.WaitGroup // the callers of Close, which the sink waits for to be late
		calling.Add(3)
		entered := make(chan struct{}, 16)
		b := l.attach("B", func(in *inbox) {
			in.hold = func() {
				inside.Add(1)
				entered <- struct{}{}
				calling.Wait()
				time.Sleep(20 * time.Millisecond)
				inside.Add(-1)
			}
		})
		b.send(b.to(a, 60))
		l.compare()
		var wg sync.WaitGroup
		wg.Go(func() { a.send(a.to(b, 60)) })
		l.returns("the delivery of a frame", func() { <-entered })
		for range 3 {
			wg.Go(func() {
				calling.Done()
				assert.NoError(l.t, b.port.Close())
				assert.Zero(l.t, inside.Load(), "deliveries running when Close returned")
			})
		}
		l.returns("Close", wg.Wait)
	}
}

// checkCloseTwice: closing a port again, or from several goroutines, does no harm, before and after its
// network was closed.
func checkCloseTwice(l *lan) {
	a, _, c := l.three()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			defer func() { assert.Nil(l.t, recover(), "panic in Close") }()
			assert.NoError(l.t, c.port.Close())
			assert.NoError(l.t, c.port.Close())
		})
	}
	l.returns("Close", wg.Wait)
	c.close()
	l.settle()
	assertAlive(l, a)
	for range 2 {
		l.returns("Close of the network", func() { assert.NoError(l.t, l.network.Close()) })
		l.returns("Close of a port", func() { assert.NoError(l.t, c.port.Close()) })
	}
}

// checkNothingAfterClose: once Close has returned, the sink is never called again, while two others send to it by
// unicast and broadcast as fast as they can. 50 rounds, unless one shows it or they take long.
func checkNothingAfterClose(l *lan) {
	a, b, c := l.three()
	began := time.Now()
	for round := 0; round < 50 && (round < fewRounds || time.Since(began) < roundsTime); round++ {
		victim := l.attach("victim", nil)
		victim.send(victim.to(a, 60))
		var stop atomic.Bool
		var wg sync.WaitGroup
		for _, s := range []*station{a, b} {
			wg.Go(func() {
				for i := 1; !stop.Load(); i++ {
					s.pour(s.to(victim, 60), s.to(victim, 1514))
					if i%8 == 0 {
						s.pour(s.toMAC(fakeguest.Broadcast, 60))
					}
				}
			})
		}
		reached := l.soon(func() bool { return victim.in.count() > 10 })
		victim.close()
		time.Sleep(time.Millisecond)
		stop.Store(true)
		wg.Wait()
		// Frames to one that has gone reach all, the next victim too: a backlog of them would push out what it asks for.
		for n := -1; n != c.in.count(); time.Sleep(10 * time.Millisecond) {
			n = c.in.count()
		}
		require.True(l.t, reached, "the station got nothing before it was closed")
		if victim.in.broken() {
			return
		}
	}
	time.Sleep(lateness)
}

// checkNetworkClose: the network may be closed while all stations send and new clients come. No sink is called after Close returned,
// every port's Done is closed and its Err tells why, and every Attach either works or, from then on, returns network.ErrClosed.
func checkNetworkClose(l *lan) {
	a, b, c := l.three()
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i, s := range []*station{a, b, c} {
		to := []*station{b, c, a}[i]
		wg.Go(func() {
			for i := 1; !stop.Load(); i++ {
				s.pour(s.to(to, 60), s.toMAC(fakeguest.Broadcast, 60))
				if i%64 == 0 {
					time.Sleep(100 * time.Microsecond)
				}
			}
		})
	}
	wg.Go(func() {
		for !stop.Load() {
			if _, err := l.tryAttach(context.Background(), "visitor", nil); err != nil {
				assert.ErrorIs(l.t, err, network.ErrClosed)
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	flowing := l.soon(func() bool { return a.in.count() > 100 })
	l.attempt("Close", func() { assert.NoError(l.t, l.network.Close()) })
	for _, s := range []*station{a, b, c} {
		s.in.closed.Store(true)
		if l.attempt("Done of "+s.name, func() { <-s.port.Done() }) {
			assert.Error(l.t, s.port.Err(), "Err of %s", s.name)
		}
	}
	time.Sleep(lateness)
	stop.Store(true)
	wg.Wait()
	require.True(l.t, flowing, "nothing arrived before Close")
	_, err := l.tryAttach(context.Background(), "late", nil)
	require.ErrorIs(l.t, err, network.ErrClosed, "Attach on a closed network")
	l.returns("second Close", func() { assert.NoError(l.t, l.network.Close()) })
}
