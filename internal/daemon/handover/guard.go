// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardEnv is the environment variable that holds the descriptor of the pair between a guard and who it guards; in the image that
// comes, the guard's process follows.
const guardEnv = "SOCKET_VMNET2_GUARD"

// guardTime is how long a guard may take to begin. It takes 10 ms.
const guardTime = 2 * time.Second

// ErrNotNeeded is returned by Inherited in a guard whose daemon has come through its upgrade.
var ErrNotNeeded = errors.New("the daemon has come through its upgrade")

// A guard is a child that has all that Exec hands over, from just before the exec until the next image hears of stop signals. Go leaves
// these to the system for some milliseconds of a program's life, whatever mask or action it is started with, and the system ends the
// process. Then the guard, which is the new program as well, takes over as the next image would, and stops in order.
type guard struct {
	pair int // ours
	pid  int
}

// newGuard starts the guard of an exec with these arguments and waits until a stop signal does not end it.
func (o *Out) newGuard(memory int, path string, argv, env []string) (*guard, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range pair {
		unix.CloseOnExec(fd)
	}
	defer func() { _ = unix.Close(pair[1]) }()
	g := &guard{pair: pair[0]}
	keep := append(slices.Collect(maps.Keys(o.fds)), 0, 1, 2, memory, pair[1])
	files := slices.Repeat([]uintptr{^uintptr(0)}, slices.Max(keep)+1) // closed
	for _, fd := range keep {
		files[fd] = uintptr(fd)
	}
	g.pid, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env: append(slices.Clone(env), fmt.Sprintf("%s=%d", guardEnv, pair[1])), Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err == nil {
		wait := unix.NsecToTimeval(int64(guardTime))
		_ = unix.SetsockoptTimeval(g.pair, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait)
		if !told(g.pair) {
			err = errors.New("it does not begin as a guard")
		}
	}
	if err != nil {
		g.release()
		return nil, fmt.Errorf("exec %s: %w", path, err)
	}
	return g, nil
}

// told waits until the other end of the pair has said something, or is gone.
func told(pair int) bool {
	for {
		if n, err := unix.Read(pair, make([]byte, 1)); err != unix.EINTR {
			return n > 0
		}
	}
}

// release ends the guard, which is not needed any more.
func (g *guard) release() {
	_, _ = unix.Write(g.pair, []byte{0})
	_ = unix.Close(g.pair)
	if g.pid > 0 {
		go func() { _, _ = unix.Wait4(g.pid, nil, 0, nil) }()
	}
}

// theGuard is this process's guard, or, with no pid, this process as one; nil: neither.
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

// watch is the life of a guard. It returns ErrNotNeeded, or nil when the daemon has ended: then a stop signal has come for this process.
func (g *guard) watch() error {
	defer func() { _ = unix.Close(g.pair) }()
	_, _ = unix.Write(g.pair, []byte{0})
	if told(g.pair) {
		return ErrNotNeeded
	}
	select {
	case signals <- syscall.SIGTERM:
	default:
	}
	return nil
}

// without is env without our variables.
func without(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, envName+"=") || strings.HasPrefix(v, guardEnv+"=")
	})
}
