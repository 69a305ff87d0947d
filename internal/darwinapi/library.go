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
type library struct{ sendmsgX, recvmsgX, activate, free uintptr }

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
// the descriptors. It can be had once per name. The error is ErrNotLaunchd if launchd did not start this process.
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
