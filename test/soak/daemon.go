// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// A phase is what is being done with the daemon.
type phase int

const (
	phaseDown phase = iota
	phaseUp
	phaseUpgrading // clients stay connected
	phaseShort     // of descriptors: the same, and new ones may be refused
	phaseStopping
)

// startPatience is how long an upgrade may take, and hangPatience an end. Both are far more than they take.
const (
	startPatience = 30 * time.Second
	hangPatience  = 20 * time.Second
)

// A daemon is the program under test, through all its lives: each is a process.
type daemon struct {
	r      *run
	lab    *lab.Lab
	binary string // its path, whose content is replaced at upgrades
	good   string // a copy of the program
	args   []string
	env    []string

	mu      sync.Mutex
	phase   phase
	life    int
	changed chan struct{} // closed with each change of what is above
	process *lab.Daemon
	watched chan struct{} // closed when watch has seen the end of this life
	ends    map[int]bool  // lives that have ended; true: in order

	shortSince, shortUntil atomic.Int64 // the last time, since the run began
}

// set changes phase and wakes who waits.
func (d *daemon) set(p phase) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.setLocked(p)
}

func (d *daemon) setLocked(p phase) {
	d.phase = p
	close(d.changed)
	d.changed = make(chan struct{})
}

// moment is another one after anything was done to the daemon.
func (d *daemon) moment() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// wait waits until the daemon serves, and returns the number of its life. It returns false when ctx is done before.
func (d *daemon) wait(ctx context.Context) (life int, ok bool) {
	for ctx.Err() == nil {
		d.mu.Lock()
		life, ok = d.life, d.phase != phaseDown && d.phase != phaseStopping
		changed := d.changed
		d.mu.Unlock()
		if ok {
			return life, true
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
	return life, false
}

// excused reports that a client of a life need not be served now: there is another one, or something is done with this one.
func (d *daemon) excused(life int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.life != life || d.phase != phaseUp
}

// inOrder reports that a life ended by a signal that asks for it.
func (d *daemon) inOrder(life int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ends[life]
}

// pid is the daemon's process, 0 if there is none.
func (d *daemon) pid() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process == nil {
		return 0
	}
	return d.process.Pid()
}

// start begins a life. The phase stays down: up ends that.
func (d *daemon) start(ctx context.Context) error {
	p, err := d.lab.StartDaemon(ctx, d.binary, d.args, d.env...)
	if err != nil {
		return err
	}
	watched := make(chan struct{})
	d.mu.Lock()
	d.life++
	life := d.life
	d.process, d.watched = p, watched
	d.setLocked(phaseDown)
	d.mu.Unlock()
	go d.watch(p, life, watched)
	return nil
}

// watch waits for the end of a life and closes seen.
func (d *daemon) watch(p *lab.Daemon, life int, seen chan<- struct{}) {
	defer close(seen)
	<-p.Done()
	d.mu.Lock()
	byItself := d.phase != phaseStopping
	d.ends[life] = !byItself && p.ExitCode() == 0
	if byItself {
		d.r.ledger.End()
	}
	d.setLocked(phaseDown)
	d.mu.Unlock()
	if byItself {
		d.r.fail(exited, "the daemon exited by itself with code %d; the end of its log:\n%s", p.ExitCode(), d.r.book.tail())
		d.r.abort(errExited)
	}
}

// up lets clients come.
func (d *daemon) up() {
	d.r.ledger.Begin()
	d.set(phaseUp)
}

// stop ends the life with s.
func (d *daemon) stop(s syscall.Signal) {
	d.r.ledger.End()
	d.set(phaseStopping)
	p := d.process
	ctx, cancel := context.WithTimeout(context.Background(), hangPatience)
	defer cancel()
	took, err := p.Stop(ctx, s)
	if err != nil {
		_ = p.Signal(syscall.SIGQUIT) // tells what it is doing
		time.Sleep(time.Second)
		p.Kill()
		d.r.fail(slowStop, "the daemon does not stop: %v; the end of its log:\n%s", err, d.r.book.tail())
	}
	<-d.watched
	if s != syscall.SIGTERM || err != nil {
		return
	}
	d.r.totals.slowest(&d.r.totals.slowestStop, took)
	if took > d.r.o.StopLimit {
		d.r.fail(slowStop, "the daemon took %s to stop, limit %s", took, d.r.o.StopLimit)
	}
	if p.ExitCode() != 0 {
		d.r.fail(exited, "the daemon's end was not in order, code %d; the end of its log:\n%s", p.ExitCode(), d.r.book.tail())
	}
}

// errExited ends a run whose daemon has exited by itself.
var errExited = errors.New("the daemon exited by itself")

// few has the daemon and its gateway do with few descriptors more than they have. Who is connected notices nothing.
func (d *daemon) few(ctx context.Context, how time.Duration) {
	d.set(phaseShort)
	d.shortSince.Store(int64(d.r.now()))
	for _, pid := range []int{d.pid(), lab.Child(d.pid())} {
		defer lab.FewFiles(pid, 2)()
	}
	sleep(ctx, how)
	d.shortUntil.Store(int64(d.r.now()))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.phase == phaseShort {
		d.setLocked(phaseUp)
	}
}

// upgrade puts a new file in place of the daemon's program and asks it to become that.
func (d *daemon) upgrade(ctx context.Context) (time.Duration, error) {
	if err := lab.Install(d.good, d.binary); err != nil {
		return 0, err
	}
	d.r.ledger.End()
	d.set(phaseUpgrading)
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.phase == phaseUpgrading { // else it has exited
			d.r.ledger.Begin()
			d.setLocked(phaseUp)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	began := time.Now()
	cmd := exec.CommandContext(ctx, d.good, "upgrade", d.r.socket)
	cmd.Env = append(os.Environ(), d.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("no upgrade: %w: %s", err, out)
	}
	return time.Since(began), nil
}
