// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package ffi

import (
	"fmt"
	"syscall"
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

// Answer makes the simulated host answer ARP, ping and DHCP, as macOS does.
func (a *API) Answer() error {
	addr, err := a.lookup("vmnetsim_host")
	if err != nil {
		return err
	}
	purego.SyscallN(addr, 1)
	return nil
}
