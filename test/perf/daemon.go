// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// wordTree stands for this source tree's daemon.
const wordTree = "tree"

// gateway is the host's address in the networks of daemons that are started here.
const gateway = "192.168.105.1"

// stopTime is how long a daemon or a guest may take to end after SIGTERM.
const stopTime = 15 * time.Second

// A source says where a daemon comes from.
type source struct {
	name    string // as the user wrote it
	socket  string // of one that is running; else empty
	program string // to start; empty for a word
}

// findSource reads what the user wrote.
func findSource(name string) (source, error) {
	if name == wordTree {
		return source{name: name}, nil
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return source{}, fmt.Errorf("find the daemon %s: %w. A socket, a program or a word is wanted: test/perf.sh --help", name, err)
	case info.Mode()&os.ModeSocket != 0:
		return source{name: name, socket: name}, nil
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return source{}, fmt.Errorf("the daemon %s is neither a socket nor a program", name)
	}
	return source{name: name, program: name}, nil
}

// A daemon is one that machines are attached to.
type daemon struct {
	source
	pid  int          // 0 where it is not known
	stop func() error // ends it; nothing where it is the user's
}

// running is the daemon behind a socket of the user's.
func running(src source) (*daemon, error) {
	pid, err := listener(src.socket)
	if err != nil {
		return nil, fmt.Errorf("reach the daemon of %s, is it running? %w", src.socket, err)
	}
	return &daemon{source: src, pid: pid}, nil
}

// listener is the process that listens on a socket, 0 where the system does not tell.
func listener(socket string) (int, error) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return hostfs.PeerOf(c.(*net.UnixConn)).PID, nil
}

// attach finds or starts a daemon on macOS: only root may use vmnet.framework before macOS 26, and only root may put a
// socket in /var/run. The tree's daemon is built first.
func (l *lima) attach(ctx context.Context, src source) (*daemon, error) {
	if src.socket != "" {
		return running(src)
	}
	if src.name == wordTree {
		var err error
		if src.program, err = l.buildTree(ctx); err != nil {
			return nil, err
		}
	}
	src.socket = filepath.Join(l.runDir, "socket_vmnet.perf")
	if _, err := listener(src.socket); err == nil {
		return nil, fmt.Errorf("another daemon is running on %s, left by a measurement that was killed? End it: sudo pkill -f %s", src.socket, src.socket)
	}
	argv := l.asRoot(src.program, "--vmnet-gateway="+gateway, src.socket)
	if l.iface != "" {
		argv = l.asRoot(src.program, "--vmnet-mode=bridged", "--vmnet-interface="+l.iface, src.socket)
	}
	l.say("Starting %s", strings.Join(argv, " "))
	return l.startProgram(ctx, src, argv)
}

// buildTree builds the tree's daemon.
func (p *perf) buildTree(ctx context.Context) (string, error) {
	p.say("Building the daemon of this source tree")
	program := filepath.Join(p.root, "build", "perf", "socket_vmnet2")
	return program, lab.BuildGo(ctx, "./cmd/socket_vmnet2", program)
}

// asRoot puts sudo in front of a command unless this is root.
func (p *perf) asRoot(argv ...string) []string {
	if p.uid == 0 {
		return argv
	}
	return append([]string{"sudo"}, argv...)
}

// startProgram starts argv and waits until src's socket takes connections.
func (p *perf) startProgram(ctx context.Context, src source, argv []string) (*daemon, error) {
	l, err := lab.New(ctx, lab.Options{})
	if err != nil {
		return nil, err
	}
	proc, err := l.Start(src.program, argv...) // sudo asks for a password on the terminal
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	d := &daemon{source: src}
	err = p.await(ctx, func() (err error) {
		select {
		case <-proc.Done():
			return nil
		default:
		}
		d.pid, err = listener(src.socket)
		return err
	})
	if err == nil && d.pid == 0 {
		err = errors.New("it ended before it was ready")
	}
	if err != nil {
		err = fmt.Errorf("start %s: %w%s", src.program, err, lastLines(proc.Output().String()))
		return nil, errors.Join(err, l.Close())
	}
	// An ordinary user knows a process of root but not a way to signal it.
	d.stop = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		if _, err := output(ctx, p.asRoot("kill", "-TERM", strconv.Itoa(d.pid))...); err != nil {
			return fmt.Errorf("stop the daemon of %s: %w", d.socket, err)
		}
		return errors.Join(proc.Wait(ctx), l.Close())
	}
	return d, nil
}

// await calls f until it returns nil or the patience ends.
func (p *perf) await(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	return lab.Poll(ctx, f)
}
