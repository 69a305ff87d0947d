// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// guardEnv is the environment variable that holds the descriptor of the pair between a guard and its daemon; in the daemon's next
	// image, the guard's process follows.
	guardEnv = "SOCKET_VMNET2_GUARD"

	guardTime = 2 * time.Second // in which a guard begins; it takes 15 ms
	guardMore = 256             // descriptors that the daemon may open between the guard's start and the exec
	guardOwn  = 64              // descriptors of the guard itself, and those of a message
	perRights = 32              // descriptors in a message
)

// ErrNotNeeded is returned by Inherited in a guard whose daemon has come through its upgrade, or never began it.
var ErrNotNeeded = errors.New("the daemon needs no guard any more")

// A guard is a child that has all that Exec hands over, from just before the exec until the next image hears of stop signals. Go leaves
// these to the system for some milliseconds of a program's life, whatever mask or action it is started with, and the system ends the
// process. Then the guard, which is the new program as well, takes over as the next image would, and stops in order.
//
// It begins before the daemon detaches. What is handed over has the same numbers in it: until it comes, they are copies of the pair.
type guard struct {
	pair int // our end, or, in the guard, its own
	pid  int // of the guard; 0: this process is it
}

// NewGuard starts the guard of an Exec with these arguments, and waits until a stop signal does not end it. The caller must Release it.
func NewGuard(path string, argv, env []string) (*guard, error) {
	open, err := os.ReadDir("/dev/fd") // on Linux and macOS
	if err != nil {
		return nil, fmt.Errorf("start a guard: %w", err)
	}
	last := 2
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil {
			last = max(last, fd)
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, os.NewSyscallError("getrlimit", err)
	}
	last = int(min(uint64(last+guardMore), uint64(limit.Cur)-guardOwn)) //nolint:unconvert // it is signed elsewhere
	syscall.ForkLock.RLock()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(pair[0])
		unix.CloseOnExec(pair[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	g := &guard{pair: pair[0]}
	copied, err := unix.FcntlInt(uintptr(pair[1]), unix.F_DUPFD_CLOEXEC, last+1) // above all its copies, or ForkExec needs as many numbers again
	_ = unix.Close(pair[1])
	if err != nil {
		_ = unix.Close(g.pair)
		return nil, os.NewSyscallError("fcntl", err)
	}
	defer func() { _ = unix.Close(copied) }()
	g.pid, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env:   append(without(env), fmt.Sprintf("%s=%d", guardEnv, last)),
		Files: append([]uintptr{0, 1, 2}, slices.Repeat([]uintptr{uintptr(copied)}, last-2)...), Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err == nil {
		wait := unix.NsecToTimeval(int64(guardTime))
		_ = unix.SetsockoptTimeval(g.pair, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait)
		if n, _, _ := g.read(make([]byte, 1)); n == 0 {
			err = errors.New("it does not begin as a guard")
		}
	}
	if err != nil {
		if g.pid > 0 { // whatever it does
			_ = unix.Kill(g.pid, unix.SIGKILL)
		}
		g.Release()
		return nil, fmt.Errorf("exec %s: %w", path, err)
	}
	return g, nil
}

// Release ends the guard, which is not needed any more.
func (g *guard) Release() {
	_, _ = unix.Write(g.pair, []byte("[]"))
	_ = unix.Close(g.pair)
	if g.pid > 0 {
		go func() { _, _ = unix.Wait4(g.pid, nil, 0, nil) }()
	}
}

// give gives copies of descriptors to the guard, the last one being the manifest.
func (g *guard) give(fds []int) error {
	for part := range slices.Chunk(fds, perRights) {
		numbers, err := json.Marshal(part)
		if err == nil {
			err = unix.Sendmsg(g.pair, numbers, unix.UnixRights(part...), nil, 0)
		}
		if err != nil {
			return fmt.Errorf("give the guard what is handed over: %w", err)
		}
	}
	return nil
}

// theGuard is this process's guard, or this process as one; nil: neither.
func theGuard() *guard {
	g := &guard{}
	n, _ := fmt.Sscan(os.Getenv(guardEnv), &g.pair, &g.pid)
	_ = os.Unsetenv(guardEnv)
	if n == 0 {
		return nil
	}
	unix.CloseOnExec(g.pair)
	return g
}

// watch is the life of a guard. It returns the descriptor of the manifest when the daemon has ended in its exec: then a stop signal has
// come for this process.
func (g *guard) watch() (manifest int, err error) {
	if _, err := unix.Write(g.pair, []byte{0}); err != nil {
		return 0, ErrNotNeeded
	}
	for b := make([]byte, 16*perRights); ; {
		n, fds, err := g.read(b)
		if err == nil && n == 0 && manifest > 0 {
			select {
			case signals <- syscall.SIGTERM:
			default:
			}
			return manifest, nil
		}
		var numbers []int
		if err != nil || json.Unmarshal(b[:n], &numbers) != nil || len(numbers) != len(fds) || len(fds) == 0 {
			return 0, ErrNotNeeded
		}
		for i, fd := range fds {
			manifest = numbers[i]
			if err := move(fd, manifest); err != nil {
				return 0, err
			}
		}
	}
}

// move gives descriptor fd the number to, in place of a copy of the pair.
func move(fd, to int) error {
	_ = unix.Close(to)
	got, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, to)
	if err == nil && got != to {
		err = fmt.Errorf("the number %d is taken", to)
	}
	return errors.Join(err, unix.Close(fd))
}

// read reads a message and its descriptors; n is 0 at the end.
func (g *guard) read(b []byte) (n int, fds []int, err error) {
	oob := make([]byte, unix.CmsgSpace(4*perRights))
	oobn := 0
	for {
		if n, oobn, _, _, err = unix.Recvmsg(g.pair, b, oob, 0); err != unix.EINTR {
			break
		}
	}
	if err != nil || oobn == 0 {
		return max(n, 0), nil, err
	}
	all, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err == nil && len(all) == 1 {
		fds, err = unix.ParseUnixRights(&all[0])
	}
	return n, fds, err
}

// without is env without our variables.
func without(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, envName+"=") || strings.HasPrefix(v, guardEnv+"=")
	})
}
