// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

//go:embed csrc/*.c csrc/*.h
var sources embed.FS

// stopTime is how long a relay may take to end after SIGTERM: the daemon promises 2 s.
const stopTime = 4 * time.Second

// A bench holds the compiled helpers and the directory everything happens in.
type bench struct {
	p        params
	dir      string
	relays   string // path of the C relays
	loadgen  string // path of the load generator
	sim      simulated
	perFrame string // path of the daemon that does without batches of datagrams
	sequence int    // numbers the sockets
}

// newBench compiles the helpers into a temporary directory.
func newBench(ctx context.Context, p params) (*bench, error) {
	daemon, err := exec.LookPath(p.Daemon)
	if err != nil {
		return nil, fmt.Errorf("find the daemon, which \"make build\" builds: %w", err)
	}
	if p.Daemon, err = filepath.Abs(daemon); err != nil {
		return nil, fmt.Errorf("find the daemon: %w", err)
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	b := &bench{p: p, dir: dir, relays: filepath.Join(dir, "relay"), loadgen: filepath.Join(dir, "load")}
	err = errors.Join(
		os.CopyFS(dir, sources),
		b.compile(ctx, b.relays, nil, "relay.c", "relaydgram.c", "wire.c"),
		b.compile(ctx, b.loadgen, nil, "load.c", "clients.c", "conns.c", "stream.c", "datagrams.c", "testframe.c", "wire.c"),
	)
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) close() { _ = os.RemoveAll(b.dir) }

// compile makes a C program; flags are added to the usual ones, libraries among them.
func (b *bench) compile(ctx context.Context, out string, flags []string, files ...string) error {
	args := []string{"-O2", "-Wall", "-Wextra", "-pthread", "-o", out}
	for _, f := range files {
		args = append(args, filepath.Join(b.dir, "csrc", f))
	}
	args = append(args, flags...)
	if msg, err := exec.CommandContext(ctx, "gcc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s with gcc: %w: %s", files[0], err, msg)
	}
	return nil
}

// A relay is a running daemon or C relay with a socket of its own.
type relay struct {
	socket  string
	control string // directory of the simulator's control file, where there is a simulator
	cmd     *exec.Cmd
	stderr  *tail
	ended   chan struct{} // closed when the process has ended
	err     error         // why, once ended is closed
}

// start runs the relay of the given kind; env is added to its environment. The load generator waits for the socket.
func (b *bench) start(kind string, env ...string) (*relay, error) {
	b.sequence++
	r := &relay{
		socket: filepath.Join(b.dir, fmt.Sprintf("s%d", b.sequence)),
		stderr: &tail{},
		ended:  make(chan struct{}),
	}
	var err error
	if r.cmd, err = b.command(kind, r); err != nil {
		return nil, err
	}
	r.cmd.Env = append(os.Environ(), env...)
	r.cmd.Stderr = r.stderr
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", kind, err)
	}
	go func() {
		r.err = r.cmd.Wait()
		close(r.ended)
	}()
	return r, nil
}

// command is how the relay of the given kind is called.
func (b *bench) command(kind string, r *relay) (*exec.Cmd, error) {
	args := append([]string{"--state-dir=" + b.dir}, b.p.Args...)
	if os.Geteuid() == 0 {
		args = append(args, "--allow-uid=0") // of the load generator
	}
	switch kind {
	case relayDaemon, relayPerFrame:
		program := b.p.Daemon
		if kind == relayPerFrame {
			program = b.perFrame
		}
		args = append(args, "--backend=usernet", "--vmnet-gateway=192.168.105.1", r.socket)
		return exec.Command(program, args...), nil
	case relayVmnetC:
		return exec.Command(b.sim.vmnetC, b.sim.lib, r.socket), nil
	case relayVmnet:
		args = append(args, "--vmnet-gateway=192.168.105.1")
	case relayBridged:
		args = append(args, "--vmnet-mode=bridged", "--vmnet-interface=en0")
	default:
		return exec.Command(b.relays, kind, r.socket), nil
	}
	var err error
	if r.control, err = os.MkdirTemp(b.dir, "control"); err != nil {
		return nil, fmt.Errorf("make a directory for the simulator: %w", err)
	}
	args = append(args, "--backend=vmnet", "--vmnetsim-lib="+b.sim.lib, "--vmnetsim-dir="+r.control, r.socket)
	return exec.Command(b.sim.daemon, args...), nil
}

func (r *relay) pid() int { return r.cmd.Process.Pid }

// alive returns an error when the process has ended by itself.
func (r *relay) alive() error {
	select {
	case <-r.ended:
		return fmt.Errorf("%s has ended during the measurement: %w%s", r.cmd.Path, r.err, r.diagnosis())
	default:
		return nil
	}
}

// stop ends the process and waits for it.
func (r *relay) stop() error {
	if err := r.alive(); err != nil {
		return err
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-r.ended:
		return nil
	case <-time.After(stopTime):
		_ = r.cmd.Process.Kill()
		<-r.ended
		return fmt.Errorf("%s did not end within %v of SIGTERM%s", r.cmd.Path, stopTime, r.diagnosis())
	}
}

// diagnosis is what the process wrote last, ready to follow an error's text.
func (r *relay) diagnosis() string {
	if s := strings.TrimSpace(r.stderr.String()); s != "" {
		return "\nits last lines:\n" + s
	}
	return ""
}

// A tail keeps the last lines written to it and counts the garbage collections that GODEBUG=gctrace=1 reports among them.
type tail struct {
	mu   sync.Mutex
	buf  []byte
	line []byte // the begin of an unfinished line
	gcs  int
}

// tailSize bounds what a tail keeps, in bytes.
const tailSize = 4096

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
