// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package ffi

import (
	"fmt"
	"net/netip"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// OpenSimulator opens the library lib of test/vmnetsim in place of vmnet.framework. Its state is shared through the files in
// dir, or private to the process if dir is empty.
func OpenSimulator(lib, dir string) (*API, error) {
	h, err := purego.Dlopen(lib, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("open simulator: %w", err)
	}
	start, err := purego.Dlsym(h, "vmnetsim_open")
	if err != nil {
		return nil, fmt.Errorf("open simulator: %w", err)
	}
	f := fn{addr: start}
	var path *byte
	if dir != "" {
		path = cstring(dir)
	}
	if errno := int32(f.call(uintptr(unsafe.Pointer(path)))); errno != 0 {
		return nil, fmt.Errorf("open simulator in %q: %w", dir, syscall.Errno(errno))
	}
	return newAPI(h)
}

// host calls a function of the simulated host, which is no part of the framework.
//
//go:uintptrescapes
func (a *API) host(name string, args ...uintptr) (int, error) {
	addr, err := a.lookup(name)
	if err != nil {
		return 0, err
	}
	r, _, _ := purego.SyscallN(addr, args...)
	return int(r), nil
}

// HostRead waits until the simulated host receives a frame on the network with the given subnet, or on the only one if
// subnet is the zero Addr, and puts it into buf. It returns 0 if none came within timeout.
func (a *API) HostRead(subnet netip.Addr, buf []byte, timeout time.Duration) (int, error) {
	n, err := a.host("vmnetsim_host_read", subnetWord(subnet), uintptr(unsafe.Pointer(unsafe.SliceData(buf))),
		uintptr(len(buf)), uintptr(timeout.Milliseconds()))
	runtime.KeepAlive(buf)
	if err == nil && n < 0 {
		err = fmt.Errorf("read a frame as the host: no network %v", subnet)
	}
	return max(n, 0), err
}

// HostWrite sends a frame from the simulated host into the network.
func (a *API) HostWrite(subnet netip.Addr, frame []byte) error {
	n, err := a.host("vmnetsim_host_write", subnetWord(subnet), uintptr(unsafe.Pointer(unsafe.SliceData(frame))),
		uintptr(len(frame)))
	runtime.KeepAlive(frame)
	if err == nil && int32(n) != 0 {
		err = fmt.Errorf("write a frame as the host: no network %v", subnet)
	}
	return err
}

// subnetWord is a subnet as an in_addr_t.
func subnetWord(a netip.Addr) uintptr {
	if !a.Is4() {
		return 0
	}
	b := a.As4()
	return uintptr(*(*uint32)(unsafe.Pointer(&b)))
}
