// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A space is a network namespace that nobody else has: that of one thread, and of the processes it starts. It has no name and no
// file and ends with them.
type space struct {
	calls chan func()
	ended chan struct{}
	tid   int // of the thread: /proc/TID/net shows the space
}

// newSpace makes a namespace whose loopback is up.
func newSpace() (*space, error) {
	s := &space{calls: make(chan func()), ended: make(chan struct{})}
	started := make(chan error)
	go s.serve(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%w: make a network namespace: %w (it needs root with CAP_SYS_ADMIN)", ErrUnable, err)
	}
	// Stacks with IPv6 send frames of their own accord. Where /proc/sys is read-only they do.
	s.run(func() { _ = os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0) })
	if err := s.ip("link set lo up"); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// serve is the thread. It never unlocks it, so the runtime ends the thread with the goroutine; the main thread it cannot
// end, which therefore goes back to where it was.
func (s *space) serve(started chan<- error) {
	defer close(s.ended)
	runtime.LockOSThread()
	before, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err == nil {
		err = unix.Unshare(unix.CLONE_NEWNET)
	}
	s.tid = unix.Gettid()
	started <- err
	if err != nil {
		return
	}
	for call := range s.calls {
		call()
	}
	_ = unix.Setns(int(before.Fd()), unix.CLONE_NEWNET)
	_ = before.Close()
}

// run calls f in the namespace. Processes that f starts stay in it.
func (s *space) run(f func()) {
	done := make(chan struct{})
	s.calls <- func() {
		defer close(done)
		f()
	}
	<-done
}

// close ends the thread, and so the processes that were started in the namespace.
func (s *space) close() {
	close(s.calls)
	<-s.ended
}

// ip runs commands of the program ip, one a line, in the namespace.
func (s *space) ip(commands string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(commands + "\n")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out []byte
	var err error
	s.run(func() { out, err = cmd.CombinedOutput() })
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.ReplaceAll(commands, "\n", "; "), err, out)
	}
	return nil
}

// packets returns how many packets an interface has received and sent.
func (s *space) packets(name string) (received, sent uint64, err error) {
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", s.tid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(table)) {
		found, values, _ := strings.Cut(line, ":")
		if strings.TrimSpace(found) != name {
			continue
		}
		var bytes uint64
		var skip [6]uint64
		_, err := fmt.Sscan(values, &bytes, &received, &skip[0], &skip[1], &skip[2], &skip[3], &skip[4], &skip[5], &bytes, &sent)
		return received, sent, err
	}
	return 0, 0, errors.New("no interface " + name)
}

// listening tells whether a TCP socket listens on a port, in the form of /proc/net/tcp.
func (s *space) listening(port int) bool {
	for _, table := range []string{"tcp", "tcp6"} {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", s.tid, table))
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				return true
			}
		}
	}
	return false
}
