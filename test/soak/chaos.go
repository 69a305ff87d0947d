// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// A usage is what the daemon uses.
type usage struct {
	At      float64 `json:"at_s"`
	Life    int     `json:"life"`
	Files   int     `json:"files"`
	Threads int     `json:"threads"`
	RSS     int     `json:"rss_kib"`
}

const (
	// leavePatience is how long clients may take to leave: one that waits for the daemon's word has quietEnd, several times.
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
)

// extraTime is how much longer than it was to be a run may be, in which there has not been enough yet.
const extraTime = 4 * time.Minute

// direct does things to the daemon until the time is over, or ctx is.
func (r *run) direct(ctx context.Context, src source) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	began := time.Now()
	timed, cancel := context.WithTimeout(ctx, r.o.Duration)
	defer cancel()
	for n := 0; ; n++ {
		x := src.nextChaos(r.o.Pace)
		sleep(timed, x.After)
		if timed.Err() != nil {
			if r.enough == nil || r.enough() || ctx.Err() != nil || time.Since(began) > r.o.Duration+extraTime {
				break
			}
			sleep(ctx, x.After)
		}
		r.actions.add("director", n, string(x.Kind), x)
		if err := r.act(ctx, x); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// begin starts the first daemon and looks at what it uses without clients.
func (r *run) begin(ctx context.Context) error {
	if err := r.daemon.start(ctx); err != nil {
		return err
	}
	r.totals.starts.Add(1)
	if err := r.findGateway(); err != nil {
		return err
	}
	sleep(ctx, 300*time.Millisecond)
	if err := r.measure(); err != nil {
		return err
	}
	r.daemon.up()
	r.gate.open()
	return nil
}

func (r *run) act(ctx context.Context, x chaos) error {
	switch x.Kind {
	case chaosTerm:
		return r.restart(ctx, x, syscall.SIGTERM)
	case chaosKill:
		return r.restart(ctx, x, syscall.SIGKILL)
	case chaosUpgrade:
		r.upgrade(ctx)
	case chaosRefused:
		r.refuse(ctx)
	case chaosFreeze:
		r.totals.freezes.Add(1)
		r.watch.rest()
		r.daemon.freeze(ctx, x.For)
		r.watch.rest()
	case chaosCalm:
		return r.calm(ctx)
	case chaosNone:
	}
	return nil
}

// restart ends the daemon's life and begins another one.
func (r *run) restart(ctx context.Context, x chaos, s syscall.Signal) error {
	if s == syscall.SIGTERM {
		r.totals.terms.Add(1)
	} else {
		r.totals.kills.Add(1)
	}
	r.watch.rest()
	r.daemon.stop(s)
	if err := r.nextLife(ctx, x); err != nil {
		return err
	}
	r.daemon.up()
	r.watch.rest()
	return nil
}

// nextLife settles the life that has ended and starts a daemon.
func (r *run) nextLife(ctx context.Context, x chaos) error {
	settled, cancel := context.WithTimeout(ctx, leavePatience)
	defer cancel()
	for r.book.mortal() > 0 && settled.Err() == nil {
		sleep(settled, 5*time.Millisecond)
	}
	r.ledger.EndLife()
	r.book.newLife()
	sleep(ctx, x.For)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.totals.starts.Add(1)
	return r.daemon.start(ctx)
}

// slowUpgrade is what an upgrade fails with that has a time limit.
var slowUpgrade = regexp.MustCompile(`did not answer within|took longer than|does not stand still|killed`)

// upgrade replaces the daemon in place.
func (r *run) upgrade(ctx context.Context) {
	pid := r.daemon.pid()
	r.watch.rest()
	took, err := r.daemon.upgrade(ctx, r.daemon.good)
	r.watch.rest()
	switch {
	case ctx.Err() != nil:
	case err != nil && r.strain.excuses() && slowUpgrade.MatchString(err.Error()):
		r.totals.tooSlow.Add(1)
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

// refuse offers the daemon a program that is none.
func (r *run) refuse(ctx context.Context) {
	bad := filepath.Join(r.o.Dir, "bad")
	if err := os.WriteFile(bad, []byte("#!/bin/sh\nexit 3\n"), 0o755); err != nil {
		r.fail(upgraded, "%v", err)
		return
	}
	_, err := r.daemon.upgrade(ctx, bad)
	if again := install(r.daemon.good, r.daemon.binary); again != nil {
		r.fail(upgraded, "%v", again)
	}
	if ctx.Err() != nil {
		return
	}
	if !errors.Is(err, errNoUpgrade) {
		r.fail(upgraded, "the daemon became a program that is none: %v", err)
		return
	}
	r.totals.refusals.Add(1)
}

// calm has everybody leave and checks that the daemon is back at what it used without clients.
func (r *run) calm(ctx context.Context) error {
	r.totals.calms.Add(1)
	if err := r.allLeave(ctx); err != nil {
		return err
	}
	began, u := time.Now(), usage{}
	for {
		var err error
		if u, err = use(r.daemon.pid()); err != nil {
			return fmt.Errorf("look at the daemon: %w", err)
		}
		bad := r.over(u)
		if bad == "" {
			break
		}
		if time.Since(began) > basePatience {
			r.fail(growth, "%s after all clients had left", bad)
			break
		}
		sleep(ctx, 100*time.Millisecond)
		if ctx.Err() != nil {
			return nil
		}
	}
	r.noteUse(u)
	r.ledger.EndLife() // all have gone, so everything is settled
	r.removePaths()
	r.gate.open()
	return nil
}

// allLeave has everybody leave.
func (r *run) allLeave(ctx context.Context) error {
	leaving, cancel := context.WithTimeout(ctx, leavePatience)
	defer cancel()
	if r.gate.close(leaving) {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.New("not all clients have left in time")
}

// over says what u has too much of, compared with the first.
func (r *run) over(u usage) string {
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

// measure notes what the daemon uses now.
func (r *run) measure() error {
	u, err := use(r.daemon.pid())
	if err != nil {
		return fmt.Errorf("look at the daemon: %w", err)
	}
	r.noteUse(u)
	return nil
}

func (r *run) noteUse(u usage) {
	u.At = r.now().Seconds()
	r.totals.mu.Lock()
	defer r.totals.mu.Unlock()
	u.Life = int(r.totals.starts.Load())
	r.totals.uses = append(r.totals.uses, u)
}

// removePaths removes the sockets that clients have left behind.
func (r *run) removePaths() {
	all, _ := os.ReadDir(r.place.dir)
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), ".") {
			_ = os.RemoveAll(filepath.Join(r.place.dir, e.Name()))
		}
	}
}
