// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A phase is what is being done with the daemon.
type phase int

const (
	phaseDown phase = iota
	phaseUp
	phaseUpgrading // clients stay connected
	phaseStopping
)

// startPatience is how long a daemon may take to serve, and hangPatience to end. Both are far more than it takes.
const (
	startPatience = 30 * time.Second
	hangPatience  = 20 * time.Second
)

// A daemon is the program under test, through all its lives: each is a process.
type daemon struct {
	r       *run
	binary  string // its path, whose content is replaced at upgrades
	good    string // a copy of the program
	pidfile string
	args    []string
	env     []string

	mu      sync.Mutex
	phase   phase
	life    int
	changed chan struct{} // closed with each change of what is above
	cmd     *exec.Cmd
	ended   chan struct{}    // closed when the process has exited and its log has been read
	ends    map[int]bool     // lives that have ended; true: in order
	exit    *os.ProcessState // of the last one
}

func newDaemon(r *run, binary, good string, args, env []string) *daemon {
	return &daemon{
		r: r, binary: binary, good: good, pidfile: filepath.Join(r.o.Dir, "pid"), args: args, env: env,
		changed: make(chan struct{}), ends: map[int]bool{},
	}
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

// until waits until ok, which is called with the lock held, is true. It returns false when ctx is done before.
func (d *daemon) until(ctx context.Context, ok func() bool) bool {
	for {
		d.mu.Lock()
		done, changed := ok(), d.changed
		d.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// wait waits until the daemon serves, and returns the number of its life.
func (d *daemon) wait(ctx context.Context) (life int, ok bool) {
	ok = d.until(ctx, func() bool { life = d.life; return d.phase == phaseUp || d.phase == phaseUpgrading })
	return life, ok && ctx.Err() == nil
}

// waitEnd waits until a life has ended.
func (d *daemon) waitEnd(ctx context.Context, life int) bool {
	ctx, cancel := context.WithTimeout(ctx, hangPatience)
	defer cancel()
	return d.until(ctx, func() bool { _, ended := d.ends[life]; return ended })
}

// excused reports that a client of a life need not be served now: there is another one, or something is done with this one.
func (d *daemon) excused(life int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.life != life || d.phase != phaseUp
}

// excusedEnd reports that a connection of a life may end: it has been stopped. An upgrade is no excuse.
func (d *daemon) excusedEnd(life int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.life != life || d.phase == phaseStopping || d.phase == phaseDown
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
	if d.cmd == nil || d.cmd.Process == nil {
		return 0
	}
	return d.cmd.Process.Pid
}

// start begins a life. The phase stays down: ready ends that.
func (d *daemon) start(ctx context.Context) error {
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(d.binary, d.args...)
	cmd.Stdout, cmd.Stderr = in, in
	cmd.Env = append(os.Environ(), d.env...)
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		return fmt.Errorf("start the daemon: %w", err)
	}
	ended := make(chan struct{})
	d.mu.Lock()
	d.life++
	life := d.life
	d.cmd, d.ended = cmd, ended
	d.setLocked(phaseDown)
	d.mu.Unlock()
	go d.watch(cmd, out, life, ended)
	return d.serving(ctx, ended)
}

// watch reads the log of a life to its end.
func (d *daemon) watch(cmd *exec.Cmd, log io.ReadCloser, life int, ended chan struct{}) {
	d.r.book.read(log)
	_ = cmd.Wait()
	_ = log.Close()
	d.mu.Lock()
	byItself := d.phase != phaseStopping
	d.exit = cmd.ProcessState
	d.ends[life] = d.phase == phaseStopping && cmd.ProcessState.Success()
	if byItself {
		d.r.ledger.End()
	}
	d.setLocked(phaseDown)
	d.mu.Unlock()
	if byItself {
		d.r.fail(exited, "the daemon exited by itself: %s; the end of its log:\n%s", cmd.ProcessState, d.r.book.tail())
		d.r.abort(errExited)
	}
	close(ended)
}

// serving waits until the daemon serves: it writes its pidfile then.
func (d *daemon) serving(ctx context.Context, ended chan struct{}) error {
	began, pid := time.Now(), strconv.Itoa(d.pid())
	for {
		if b, err := os.ReadFile(d.pidfile); err == nil && string(b) == pid {
			d.r.totals.slowest(&d.r.totals.slowestStart, time.Since(began))
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("the daemon did not start: %s", d.r.book.tail())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
		if time.Since(began) > startPatience {
			return fmt.Errorf("the daemon does not serve within %s: %s", startPatience, d.r.book.tail())
		}
	}
}

// up lets clients come.
func (d *daemon) up() {
	d.r.ledger.Begin()
	d.set(phaseUp)
}

// stop ends the life with s and returns how long that took.
func (d *daemon) stop(s syscall.Signal) time.Duration {
	d.r.ledger.End()
	d.set(phaseStopping)
	d.mu.Lock()
	cmd, ended := d.cmd, d.ended
	d.mu.Unlock()
	began := time.Now()
	if err := cmd.Process.Signal(s); err != nil {
		return 0 // it has exited by itself, which has been told
	}
	select {
	case <-ended:
	case <-time.After(hangPatience):
		_ = cmd.Process.Signal(syscall.SIGQUIT) // tells what it is doing
		time.Sleep(time.Second)
		_ = cmd.Process.Kill()
		<-ended
		d.r.fail(slowStop, "the daemon does not stop; the end of its log:\n%s", d.r.book.tail())
	}
	took := time.Since(began)
	if s == syscall.SIGTERM {
		d.judgeStop(took)
	}
	return took
}

func (d *daemon) judgeStop(took time.Duration) {
	d.r.totals.slowest(&d.r.totals.slowestStop, took)
	if took > d.r.o.StopLimit && !d.r.strain.excuses() {
		d.r.fail(slowStop, "the daemon took %s to stop, limit %s", took, d.r.o.StopLimit)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.exit.Success() {
		d.r.fail(exited, "the daemon's end was not in order: %s; the end of its log:\n%s", d.exit, d.r.book.tail())
	}
}

// errExited ends a run whose daemon has exited by itself.
var errExited = errors.New("the daemon exited by itself")

// freeze stops the process for a while.
func (d *daemon) freeze(ctx context.Context, how time.Duration) {
	pid := d.pid()
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	sleep(ctx, how)
	_ = syscall.Kill(pid, syscall.SIGCONT)
}

// errNoUpgrade is returned by upgrade when the daemon refused.
var errNoUpgrade = errors.New("no upgrade")

// upgrade puts program in place of the daemon's and asks it to become that.
func (d *daemon) upgrade(ctx context.Context, program string) (time.Duration, error) {
	if err := install(program, d.binary); err != nil {
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
	cmd := exec.CommandContext(ctx, d.good, "upgrade", d.r.place.socket)
	cmd.Env = append(os.Environ(), d.env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%w: %w: %s", errNoUpgrade, err, bytes.TrimSpace(out.Bytes()))
	}
	return time.Since(began), nil
}

// install puts a copy of program at path, as a package manager does: by a rename.
func install(program, path string) error {
	b, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", b, 0o755); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
