// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// Words that stand for a daemon.
const (
	wordTree  = "tree"
	wordFlood = "flood"
)

// gateway is the host's address in the networks of daemons that are started here.
const gateway = "192.168.105.1"

// A source says where a daemon comes from.
type source struct {
	name    string // as the user wrote it
	socket  string // of one that is running; else empty
	program string // to start; empty for a word
}

// findSource reads what the user wrote.
func (s *setting) findSource(name string) (source, error) {
	if name == wordTree || name == wordFlood && s.goos == "linux" {
		return source{name: name}, nil
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return source{}, fmt.Errorf("find the daemon %s: %w", name, err)
	}
	info, err := os.Stat(abs)
	switch {
	case err != nil:
		return source{}, fmt.Errorf("find the daemon %s: %w. A socket, a program or a word is wanted: test/perf.sh --help", name, err)
	case info.Mode()&os.ModeSocket != 0:
		return source{name: name, socket: abs}, nil
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return source{}, fmt.Errorf("the daemon %s is neither a socket nor a program", name)
	}
	return source{name: name, program: abs}, nil
}

// A daemon is one that machines are attached to.
type daemon struct {
	source
	relay string        // its kind, for package rounds
	pid   int           // 0 where it is not known
	stop  func() error  // ends it; nothing where it is the user's
	log   func() string // what it printed
}

func (d *daemon) end() error {
	if d.stop == nil {
		return nil
	}
	return d.stop()
}

// running is the daemon behind a socket of the user's.
func (s *setting) running(src source) (*daemon, error) {
	pid, err := listener(src.socket)
	if err != nil {
		return nil, fmt.Errorf("reach the daemon of %s, is it running? %w", src.socket, err)
	}
	return &daemon{source: src, pid: pid, relay: s.kind(src.socket)}, nil
}

// kind tells daemons apart by what only socket_vmnet2 has: a directory for further sockets beside its socket.
func (s *setting) kind(socket string) string {
	_, err := os.Stat(socket + ".d")
	switch {
	case s.goos == "linux":
		return rounds.Daemon
	case err == nil:
		return rounds.DaemonMac
	}
	return rounds.SocketVmnet
}

// listener is the process that listens on a socket, 0 where the system does not tell.
func listener(socket string) (int, error) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	pid := 0
	err = raw.Control(func(fd uintptr) {
		if p, err := peerPID(int(fd)); err == nil {
			pid = p
		}
	})
	return pid, err
}

// build builds the tree's daemon into dir.
func (s *setting) build(ctx context.Context, dir string) (string, error) {
	s.say("Building the daemon of this source tree")
	program := filepath.Join(dir, "socket_vmnet2")
	return program, s.buildGo(ctx, "./cmd/socket_vmnet2", program)
}

// buildGo builds a command of the source tree to the file out.
func (s *setting) buildGo(ctx context.Context, pkg, out string) error {
	cmd := exec.CommandContext(ctx, goCommand(), "build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Dir = s.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w%s", pkg, err, lastLines(string(msg)))
	}
	return nil
}

func goCommand() string {
	if g := os.Getenv("GO"); g != "" {
		return g
	}
	return "go"
}

// floodSources are those of the stand-in for socket_vmnet.
var floodSources = []string{"relay.c", "relaydgram.c", "wire.c"}

// startFlood compiles and starts the stand-in for socket_vmnet.
func (s *setting) startFlood(ctx context.Context, l *lab.Lab) (*daemon, error) {
	if _, err := exec.LookPath("gcc"); err != nil {
		return nil, errors.New("--old flood is a C program and gcc is missing: sudo apt-get install gcc libc6-dev, or name another old daemon with --old")
	}
	program, socket := l.Path("flood"), l.Path("flood.sock")
	argv := []string{"gcc", "-O2", "-pthread", "-o", program}
	for _, f := range floodSources {
		argv = append(argv, filepath.Join(s.root, "test", "bench", "rig", "csrc", f))
	}
	if _, err := output(ctx, argv...); err != nil {
		return nil, fmt.Errorf("compile the stand-in for socket_vmnet: %w", err)
	}
	_ = os.Remove(socket) // of an earlier round
	p, err := l.Start("flood", program, "flood", socket)
	if err != nil {
		return nil, err
	}
	// Not by connecting: it never forgets a client.
	err = s.await(ctx, func() error {
		_, err := os.Stat(socket)
		return err
	})
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("start the stand-in for socket_vmnet: %w%s", err, lastLines(p.Output().String()))
	}
	return &daemon{
		source: source{name: wordFlood, socket: socket}, relay: rounds.Old, pid: p.Pid(), log: p.Output().String,
		stop: func() error { p.Kill(); return nil },
	}, nil
}

// await calls f until it returns nil or the setting's patience ends.
func (s *setting) await(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

var dropRE = regexp.MustCompile(`\bdrop_[a-z_]+=(\d+)`)

// drops adds up what the daemon's log says about clients that have gone, nil where it keeps no log that tells.
func (d *daemon) drops() *uint64 {
	if d.log == nil || d.relay != rounds.Daemon && d.relay != rounds.DaemonMac {
		return nil
	}
	sum := uint64(0)
	for line := range strings.Lines(d.log()) {
		if !strings.Contains(line, "client gone") {
			continue
		}
		for _, m := range dropRE.FindAllStringSubmatch(line, -1) {
			n, _ := strconv.ParseUint(m[1], 10, 64) // digits, the expression says
			sum += n
		}
	}
	return &sum
}
