// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	stopTime = 20 * time.Second // how long a relay may take to end after SIGTERM: the daemon promises 2 s, of a machine that is not overloaded
	waitTime = time.Minute      // how long it may take to make its socket
)

// A Relay is a running daemon or C relay with a socket of its own.
type Relay struct {
	Socket string // path of the stream socket; the others are beside it

	cmd    *exec.Cmd
	stderr *tail
	ended  chan struct{} // closed when the process has ended
	stop   time.Duration // how long Stop waits
	err    error         // why, once ended is closed
}

// Start runs a relay of the given kind, which has been prepared. What is in env is added to its environment. The load generator
// waits for the socket. The caller stops the relay.
func (r *Rig) Start(kind string, env ...string) (*Relay, error) {
	k, err := r.kind(kind)
	if err != nil {
		return nil, err
	}
	if k.Prepare != nil && !r.prepared[kind] {
		return nil, fmt.Errorf("start %s: it has not been prepared", kind)
	}
	r.sequence++
	l := &Relay{Socket: filepath.Join(r.dir, fmt.Sprintf("s%d", r.sequence)), stderr: &tail{}, ended: make(chan struct{}), stop: stopTime}
	if l.cmd, err = k.Command(r, l); err != nil {
		return nil, err
	}
	l.cmd.Env = append(l.cmd.Environ(), env...)
	l.cmd.Stderr = l.stderr
	if err := l.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", kind, err)
	}
	go func() {
		l.err = l.cmd.Wait()
		close(l.ended)
	}()
	return l, nil
}

// PID is the process's.
func (r *Relay) PID() int { return r.cmd.Process.Pid }

// Alive returns an error when the process has ended by itself.
func (r *Relay) Alive() error {
	select {
	case <-r.ended:
		return fmt.Errorf("%s has ended during the measurement: %w%s", r.cmd.Path, r.err, r.Diagnosis())
	default:
		return nil
	}
}

// Stop ends the process and waits for it.
func (r *Relay) Stop() error {
	if err := r.Alive(); err != nil {
		return err
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-r.ended:
		return nil
	case <-time.After(r.stop):
	}
	_ = r.cmd.Process.Signal(syscall.SIGQUIT) // a Go program says what it is doing
	select {
	case <-r.ended:
	case <-time.After(stopTime):
		_ = r.cmd.Process.Kill()
		<-r.ended
	}
	return fmt.Errorf("%s did not end within %v of SIGTERM%s", r.cmd.Path, r.stop, r.Diagnosis())
}

// Diagnosis is what the process wrote last, ready to follow an error's text: its last lines, and a stuck Go program's goroutines.
func (r *Relay) Diagnosis() string {
	if s := strings.TrimSpace(r.stderr.String()); s != "" {
		return "\nits last lines:\n" + s
	}
	return ""
}

// Collections is how many garbage collections the process has reported so far, started with GODEBUG=gctrace=1.
func (r *Relay) Collections() int { return r.stderr.collections() }

// await calls f until it succeeds, while the relay is starting.
func (r *Relay) await(ctx context.Context, pause time.Duration, f func() error) error {
	for ; ; time.Sleep(pause) {
		err := f()
		if err == nil {
			return nil
		}
		if aliveErr := r.Alive(); aliveErr != nil {
			return aliveErr
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait for %s to start: %w", r.cmd.Path, err)
		}
	}
}

// A tail keeps the last lines written to it and counts the garbage collections that GODEBUG=gctrace=1 reports among them.
type tail struct {
	mu   sync.Mutex
	buf  []byte
	line []byte // the begin of an unfinished line
	gcs  int
}

// tailSize bounds what a tail keeps, in bytes.
const tailSize = 1 << 16

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	t.buf = t.buf[max(0, len(t.buf)-tailSize):]
	t.line = append(t.line, p...)
	for {
		line, rest, found := bytes.Cut(t.line, []byte("\n"))
		if !found {
			return len(p), nil
		}
		if bytes.HasPrefix(line, []byte("gc ")) {
			t.gcs++
		}
		t.line = append(t.line[:0], rest...)
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// collections is how many garbage collections have been reported so far.
func (t *tail) collections() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gcs
}
