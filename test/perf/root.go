// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// stopTime is how long a daemon may take to end after SIGTERM.
const stopTime = 15 * time.Second

// A record keeps the output of a process that runs beside us.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(b)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

// asRoot puts sudo in front of a command unless this is root.
func (s *setting) asRoot(argv ...string) []string {
	if s.uid == 0 {
		return argv
	}
	return append([]string{"sudo"}, argv...)
}

// startAsRoot starts the program of src with the options that socket_vmnet and socket_vmnet2 share, and waits for its socket.
func (l *lima) startAsRoot(ctx context.Context, src source) (*daemon, error) {
	if src.name == wordTree {
		dir, err := os.MkdirTemp("", "perf")
		if err != nil {
			return nil, fmt.Errorf("make a directory for the daemon: %w", err)
		}
		if src.program, err = l.build(ctx, dir); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		d, err := l.startProgram(ctx, src)
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		stop := d.stop
		d.stop = func() error { return errors.Join(stop(), os.RemoveAll(dir)) }
		return d, nil
	}
	return l.startProgram(ctx, src)
}

func (l *lima) startProgram(ctx context.Context, src source) (*daemon, error) {
	src.socket = filepath.Join(l.runDir, "socket_vmnet.perf")
	if _, err := listener(src.socket); err == nil {
		return nil, fmt.Errorf("another daemon is running on %s, left by a measurement that was killed? End it: sudo pkill -f %s", src.socket, src.socket)
	}
	argv := l.asRoot(src.program, "--vmnet-gateway="+gateway, src.socket)
	if l.iface != "" {
		argv = l.asRoot(src.program, "--vmnet-mode=bridged", "--vmnet-interface="+l.iface, src.socket)
	}
	l.say("Starting %s", quote(argv))
	cmd, log := exec.Command(argv[0], argv[1:]...), &record{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, log, log // sudo may ask for a password
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", src.program, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it tells why in its log
		close(ended)
	}()
	d := &daemon{source: src, log: log.String}
	err := l.await(ctx, func() (err error) {
		select {
		case <-ended:
			return nil
		default:
		}
		d.pid, err = listener(src.socket)
		return err
	})
	d.stop = func() error { return l.stopAsRoot(d, ended) }
	select {
	case <-ended:
		return nil, fmt.Errorf("start %s: it ended before it was ready%s", src.program, lastLines(log.String()))
	default:
	}
	if err != nil {
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("start %s: %w%s", src.program, err, lastLines(log.String()))
	}
	if d.relay = l.kind(src.socket); src.name == wordTree {
		d.relay = rounds.DaemonMac
	}
	return d, nil
}

// stopAsRoot ends a daemon of root, of which an ordinary user knows the process but not a way to signal it.
func (s *setting) stopAsRoot(d *daemon, ended <-chan struct{}) error {
	if d.pid == 0 {
		return fmt.Errorf("the daemon of %s is still running, its process is not known: sudo pkill -f %s", d.socket, d.socket)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if _, err := output(ctx, s.asRoot("kill", "-TERM", strconv.Itoa(d.pid))...); err != nil {
		return fmt.Errorf("stop the daemon of %s: %w", d.socket, err)
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the daemon of %s, process %d, did not end within %v", d.socket, d.pid, stopTime)
	}
}
