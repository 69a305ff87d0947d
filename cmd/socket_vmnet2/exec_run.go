// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

const (
	// execFD is the first descriptor that is not a standard stream, the one that QEMU users write as fd=3.
	execFD = 3

	// maxExecFD is the highest descriptor that may be asked for. Systems allow 256 files by default at least.
	maxExecFD = 1023

	// The exit codes of shells and env.
	exitNotRun, exitNotFound = 126, 127
)

// lowestFree is the lowest number from first on that no file of the caller has, and that is not taken either.
func lowestFree(first, taken int) int {
	for fd := first; ; fd++ {
		if fd != taken && !hostfs.Inherited(fd) {
			return fd
		}
	}
}

// reserve opens something harmless with the numbers of place that nothing has, not even package lowfd: a number that the runtime
// or this program might get for something of its own.
func reserve(place []int) {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	kept := false
	for _, fd := range place {
		switch _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); {
		case fd == null:
			kept = true
		case err != nil && hostfs.Dup2(null, fd) == nil:
			unix.CloseOnExec(fd)
		}
	}
	if !kept {
		_ = unix.Close(null)
	}
}

// putInPlace gives the files the numbers of place, to stay open in the command. Whatever has such a number is this
// process's own, perhaps one of the Go runtime's, where reserve came too late: nothing but exec may follow.
func putInPlace(files []*os.File, place []int) error {
	above := slices.Max(place) + 1
	high := make([]int, len(files))
	for i, f := range files { // first out of the way of each other
		var err error
		if high[i], err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, above); err != nil {
			return fmt.Errorf("duplicate a descriptor: %w", err)
		}
		// Programs expect a descriptor that they are given to be as a new one is.
		if err := unix.SetNonblock(high[i], false); err != nil {
			return fmt.Errorf("unset O_NONBLOCK: %w", err)
		}
	}
	runtime.LockOSThread()
	leaveThreads()
	for i, fd := range high {
		if err := hostfs.Dup2(fd, place[i]); err != nil {
			return fmt.Errorf("make %d the descriptor of the connection: %w", place[i], err)
		}
	}
	runtime.KeepAlive(files)
	return nil
}

// become replaces this process by command. It returns only with an error, and with the exit code for it.
func become(command []string) (int, error) {
	file, err := command[0], error(nil)
	if !strings.Contains(file, "/") {
		if file, err = exec.LookPath(file); errors.Is(err, exec.ErrNotFound) {
			err = syscall.ENOENT
		}
	}
	if err == nil {
		err = syscall.Exec(file, command, os.Environ())
	}
	if errors.Is(err, syscall.ENOEXEC) { // a script without an interpreter line
		err = syscall.Exec("/bin/sh", append([]string{"/bin/sh", file}, command[1:]...), os.Environ())
	}
	code := exitNotRun
	if errors.Is(err, syscall.ENOENT) {
		code = exitNotFound
	}
	return code, fmt.Errorf("run %q: %s", command[0], compat.Strerror(err))
}
