// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package darwinapi

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

// A library is the functions, 0 where they are missing.
type library struct{ sendmsgX, recvmsgX, activate, free, sigaction, alarm, pidpath, read, write uintptr }

// current is the library in use, nil until it is first needed.
var current atomic.Pointer[library]

// open opens a library by path. The empty path is none.
func open(path string) (*library, error) {
	l := new(library)
	if path == "" {
		return l, nil
	}
	h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	for name, f := range map[string]*uintptr{
		"sendmsg_x": &l.sendmsgX, "recvmsg_x": &l.recvmsgX, "launch_activate_socket": &l.activate, "free": &l.free,
		"sigaction": &l.sigaction, "alarm": &l.alarm, "proc_pidpath": &l.pidpath, "read": &l.read, "write": &l.write,
	} {
		*f, _ = purego.Dlsym(h, name) // missing: 0
	}
	return l, nil
}

// lib is the library in use.
func lib() *library {
	if l := current.Load(); l != nil {
		return l
	}
	l, err := open(defaultPath)
	if err != nil { // libSystem is in every process
		l = new(library)
	}
	current.CompareAndSwap(nil, l)
	return current.Load()
}

// Available reports whether sendmsg_x and recvmsg_x are there. They are private functions of macOS, so there must be
// another way.
func Available() bool { return lib().sendmsgX != 0 && lib().recvmsgX != 0 }

// ActivateSocket returns the listening sockets that launchd made for the entry name of the job's Sockets. The caller owns
// the descriptors. launchd gives it once per name. The error is ErrNotLaunchd if launchd did not start this process.
func ActivateSocket(name string) ([]int, error) {
	l := lib()
	if l.activate == 0 || l.free == 0 {
		return nil, ErrNotLaunchd
	}
	text := append([]byte(name), 0)
	fds, count := new(uintptr), new(uintptr) // int *, size_t
	r, _, _ := purego.SyscallN(l.activate, uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(fds)), uintptr(unsafe.Pointer(count)))
	switch errno := syscall.Errno(uint32(r)); {
	case errors.Is(errno, syscall.ESRCH):
		return nil, ErrNotLaunchd
	case errors.Is(errno, syscall.ENOENT):
		return nil, fmt.Errorf("activate socket %q: the launchd job has none of this name in Sockets: %w", name, errno)
	case errno != 0:
		return nil, fmt.Errorf("activate socket %q: %w", name, errno)
	case *fds == 0:
		return nil, nil
	}
	list := make([]int, *count)
	for i, fd := range unsafe.Slice(*(**int32)(unsafe.Pointer(fds)), *count) {
		list[i] = int(fd)
		syscall.CloseOnExec(list[i])
	}
	purego.SyscallN(l.free, *fds) // it came from malloc
	return list, nil
}

// action is struct sigaction. Its zero value is the default action, which ends the process.
type action struct {
	handler     uintptr
	mask, flags uint32
}

// EndAfter has the system end the process by SIGALRM after so many seconds, whether or not Go's scheduler still runs anything.
// undo takes it back. A new program that takes the process's place by exec keeps the alarm; Go's runtime ignores it there.
func EndAfter(seconds uint) (undo func()) {
	l := lib()
	if l.sigaction == 0 || l.alarm == 0 {
		return func() {}
	}
	restore := Deadly(syscall.SIGALRM)
	purego.SyscallN(l.alarm, uintptr(seconds))
	return func() {
		purego.SyscallN(l.alarm, 0)
		restore()
	}
}

// Deadly has the system end the process by a signal, without a handler of Go's. undo takes it back.
func Deadly(s syscall.Signal) (undo func()) {
	l, before := lib(), new(action)
	if l.sigaction == 0 {
		return func() {}
	}
	purego.SyscallN(l.sigaction, uintptr(s), uintptr(unsafe.Pointer(new(action))), uintptr(unsafe.Pointer(before)))
	return func() { purego.SyscallN(l.sigaction, uintptr(s), uintptr(unsafe.Pointer(before)), 0) }
}

// Executable is the path of the file that the process pid runs, whatever it was called as; empty if the system does not tell.
func Executable(pid int) string {
	l, path := lib(), make([]byte, 4096) // PROC_PIDPATHINFO_MAXSIZE
	if l.pidpath == 0 {
		return ""
	}
	n, _, _ := purego.SyscallN(l.pidpath, uintptr(pid), uintptr(unsafe.Pointer(&path[0])), uintptr(len(path)))
	return string(path[:max(0, min(int(int32(n)), len(path)))])
}
