// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

const (
	// leavePatience is how long clients may take to leave: one that waits for the daemon to end it has quietEnd, several times.
	leavePatience = 2 * time.Minute
	// basePatience is how long the daemon may take to be back at what it used before: it looks for clients that left without a
	// word every few seconds, and gives memory back every ten.
	basePatience = 60 * time.Second
	// moreFiles and moreThreads are how many more there may be than at the beginning: what was opened for the first client of
	// a kind stays, and a thread that the runtime has made is kept.
	moreFiles   = 4
	moreThreads = 40
	// moreMemory is how much more there may be in KiB: what a program keeps for reuse. A daemon with the race detector has more.
	moreMemory     = 64 << 10
	moreMemoryRace = 512 << 10
	// extraTime is how much longer than it was to be a run may be, in which there has not been enough yet.
	extraTime = 4 * time.Minute
)

// A chaosKind is what happens to the daemon.
type chaosKind string

const (
	chaosTerm    chaosKind = "term"    // stopped in order, started again
	chaosKill    chaosKind = "kill"    // killed, started again
	chaosUpgrade chaosKind = "upgrade" // replaced in place
	chaosFreeze  chaosKind = "freeze"  // stopped and continued by the system
	chaosGateway chaosKind = "gateway" // its process is killed
	chaosFew     chaosKind = "few"     // the daemon and the gateway get hardly any more descriptors
	chaosCalm    chaosKind = "calm"    // every client leaves; what the daemon uses is measured
)

// A chaos is an act of the director.
type chaos struct {
	After time.Duration // since the last one
	Kind  chaosKind
	For   time.Duration // down, or frozen
}

// nextChaos decides what happens to the daemon next.
func (s source) nextChaos(pace time.Duration) chaos {
	return chaos{
		After: s.between(pace/2, pace*3/2),
		Kind: pick(s, []choice[chaosKind]{
			{15, chaosTerm}, {12, chaosKill}, {30, chaosUpgrade}, {7, chaosFreeze}, {6, chaosGateway}, {8, chaosFew}, {22, chaosCalm},
		}),
		For: s.between(0, 500*time.Millisecond),
	}
}

// direct starts the first daemon and does things to it until the time is over, or ctx is.
func (r *run) direct(ctx context.Context, src source) error {
	if err := r.daemon.start(ctx); err != nil {
		return err
	}
	r.totals.starts.Add(1)
	if err := r.findGateway(); err != nil {
		return err
	}
	sleep(ctx, 300*time.Millisecond)
	u, err := lab.UseOf(r.daemon.pid()) // without clients
	if err != nil {
		return fmt.Errorf("look at the daemon: %w", err)
	}
	r.totals.uses = append(r.totals.uses, u)
	r.daemon.up()
	r.come()
	began := time.Now()
	timed, cancel := context.WithTimeout(ctx, r.o.Duration)
	defer cancel()
	for {
		x := src.nextChaos(r.o.Pace)
		sleep(timed, x.After)
		if timed.Err() != nil {
			if r.enough == nil || r.enough() || ctx.Err() != nil || time.Since(began) > r.o.Duration+extraTime {
				return nil
			}
			sleep(ctx, x.After)
		}
		r.book.keep(fmt.Sprintf("soak: %s, %s", x.Kind, x.For))
		if err := r.act(ctx, x); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (r *run) act(ctx context.Context, x chaos) error {
	switch x.Kind {
	case chaosTerm:
		r.totals.terms.Add(1)
		return r.restart(ctx, x, syscall.SIGTERM)
	case chaosKill:
		r.totals.kills.Add(1)
		return r.restart(ctx, x, syscall.SIGKILL)
	case chaosUpgrade:
		r.upgrade(ctx)
	case chaosGateway:
		if child := lab.Child(r.daemon.pid()); child != 0 {
			r.totals.gatewayKills.Add(1)
			r.watch.rest()
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
	case chaosFew:
		if r.o.Backend == backendSimulator {
			return nil // a client that gets no interface shares one until there is one, and misses frames at that moment
		}
		r.totals.few.Add(1)
		r.daemon.few(ctx, 4*x.For)
		r.watch.rest()
	case chaosFreeze:
		r.totals.freezes.Add(1)
		r.watch.rest()
		_ = syscall.Kill(r.daemon.pid(), syscall.SIGSTOP)
		sleep(ctx, 2*x.For)
		_ = syscall.Kill(r.daemon.pid(), syscall.SIGCONT)
		r.watch.rest()
	case chaosCalm:
		if err := r.calm(ctx); err != nil {
			return err
		}
		r.come()
	}
	return nil
}

// restart ends the daemon's life, settles it and begins another one.
func (r *run) restart(ctx context.Context, x chaos, s syscall.Signal) error {
	r.watch.rest()
	r.daemon.stop(s)
	settled, cancel := context.WithTimeout(ctx, leavePatience)
	defer cancel()
	for r.mortal.Load() > 0 && settled.Err() == nil {
		sleep(settled, 5*time.Millisecond)
	}
	r.ledger.EndLife()
	r.book.newLife()
	sleep(ctx, x.For)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.totals.starts.Add(1)
	if err := r.daemon.start(ctx); err != nil {
		return err
	}
	r.daemon.up()
	r.watch.rest()
	return nil
}

// upgrade replaces the daemon in place.
func (r *run) upgrade(ctx context.Context) {
	pid := r.daemon.pid()
	r.watch.rest()
	took, err := r.daemon.upgrade(ctx)
	r.watch.rest()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.fail(upgraded, "%v; the end of the daemon's log:\n%s", err, r.book.tail())
	case r.daemon.pid() != pid:
		r.fail(upgraded, "the process is another one than before the upgrade")
	default:
		r.totals.upgrades.Add(1)
		r.totals.mu.Lock()
		r.totals.upgradeTimes = append(r.totals.upgradeTimes, took)
		r.totals.mu.Unlock()
	}
}

// calm has all clients leave and checks that the daemon is back at what it used without clients.
func (r *run) calm(ctx context.Context) error {
	r.leave()
	left := make(chan struct{})
	go func() {
		defer close(left)
		r.actors.Wait()
	}()
	select {
	case <-left:
	case <-time.After(leavePatience):
		return errors.New("not all clients have left in time")
	}
	var u lab.Use
	for began := time.Now(); ctx.Err() == nil; sleep(ctx, 100*time.Millisecond) {
		var err error
		if u, err = lab.UseOf(r.daemon.pid()); err != nil {
			return fmt.Errorf("look at the daemon: %w", err)
		}
		bad := r.over(u)
		if bad == "" {
			break
		}
		if c, err := net.Dial("unix", r.socket); err == nil { // on Linux the next frame tells that a passed socket's client has gone
			mac := net.HardwareAddr{0x0e, 0, 0, 0, 0, 1}
			_, _ = c.Write(frame.Append(nil, fakeguest.EthernetFrame(fakeguest.Broadcast, mac, fakeguest.TypeTest, make([]byte, 46))))
			_ = c.Close()
		}
		if time.Since(began) > basePatience {
			r.fail(growth, "%s after all clients had left; open are: %s", bad, lab.Files(r.daemon.pid()))
			break
		}
	}
	r.totals.mu.Lock()
	r.totals.uses = append(r.totals.uses, u)
	r.totals.mu.Unlock()
	r.ledger.EndLife() // all have gone, so everything is settled
	return nil
}

// over says what u has too much of, compared with the first.
func (r *run) over(u lab.Use) string {
	r.totals.mu.Lock()
	defer r.totals.mu.Unlock()
	base, more := r.totals.uses[0], moreMemory
	if r.o.Race {
		more = moreMemoryRace
	}
	switch {
	case u.Files > base.Files+moreFiles:
		return fmt.Sprintf("%d descriptors, %d at the beginning", u.Files, base.Files)
	case u.Threads > base.Threads+moreThreads:
		return fmt.Sprintf("%d threads, %d at the beginning", u.Threads, base.Threads)
	case u.RSS > base.RSS+more:
		return fmt.Sprintf("%d KiB, %d at the beginning", u.RSS, base.RSS)
	}
	return ""
}
