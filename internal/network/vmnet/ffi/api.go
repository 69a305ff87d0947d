// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"fmt"
	"sync/atomic"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// An API is vmnet.framework, or the simulator in its place. It is never closed: what it opened stays in the process.
type API struct {
	handles []uintptr // of the libraries
	f       functions
	k       keys
	s       statics
	blocks  *blocks

	noNetworks error // names the first function for networks that this macOS does not have

	interfaces, queues, networks atomic.Int64 // that exist, for tests
}

var _ api.API = (*API)(nil)

// newAPI looks up the symbols in the libraries, in this order.
func newAPI(handles ...uintptr) (*API, error) {
	a := &API{handles: handles}
	if err := a.resolve(); err != nil {
		return nil, err
	}
	var err error
	if a.blocks, err = newBlocks(a.s.globalBlock, a.s.write); err != nil {
		return nil, fmt.Errorf("open vmnet.framework: %w", err)
	}
	return a, nil
}

// Features implements api.API.
func (a *API) Features() api.Features { return api.Features{Networks: a.noNetworks == nil} }

// SharedInterfaces implements api.API.
func (a *API) SharedInterfaces() ([]string, error) {
	list := a.f.sharedInterfaces.call()
	if list == 0 {
		return nil, nil
	}
	defer a.f.xpcRelease.call(list)
	var names []string
	for i := range a.f.arrayCount.call(list) {
		if name := gostring(a.f.arrayString.call(list, i)); name != "" {
			names = append(names, name)
		}
	}
	return names, nil
}
