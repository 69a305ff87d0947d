// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"sync"
	"unsafe"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// A networkRef is a vmnet_network_ref.
type networkRef struct {
	a   *API
	ref uintptr

	mu       sync.Mutex
	uses     int // our reference, and calls under way
	released bool
}

var _ api.Network = (*networkRef)(nil)

// NewNetwork implements api.API. It takes as long as the framework takes.
func (a *API) NewNetwork(c api.NetworkConfig) (api.Network, error) {
	if a.noNetworks != nil {
		return nil, a.noNetworks
	}
	status := new(uint32)
	*status = uint32(api.Failure)
	ref := a.f.configCreate.call(modes[c.Mode], uintptr(unsafe.Pointer(status)))
	if ref == 0 {
		return nil, a.f.configCreate.refused(*status)
	}
	defer a.f.cfRelease.call(ref)
	config := configuration{a: a, ref: ref}
	config.addresses(c)
	config.disable(c)
	config.rules(c)
	if config.err != nil {
		return nil, config.err
	}
	*status = uint32(api.Failure)
	ref = a.f.networkCreate.call(ref, uintptr(unsafe.Pointer(status)))
	if ref == 0 {
		return nil, a.f.networkCreate.refused(*status)
	}
	a.networks.Add(1)
	return &networkRef{a: a, ref: ref, uses: 1}, nil
}

// refused is the error of a function that returned NULL. Some status says why.
func (f *fn) refused(status uint32) error {
	if api.Status(status) == api.Success {
		status = uint32(api.Failure)
	}
	return f.failed(api.Status(status))
}

// A configuration is a vmnet_network_configuration_ref.
type configuration struct {
	a   *API
	ref uintptr
	err error // the first; nothing is called any more
}

// set calls f with the configuration and args.
//
//go:uintptrescapes
func (c *configuration) set(f *fn, args ...uintptr) {
	if c.err == nil {
		c.err = f.failed(f.status(append([]uintptr{c.ref}, args...)...))
	}
}

func (c *configuration) addresses(o api.NetworkConfig) {
	f := &c.a.f
	if o.ExternalInterface != "" {
		c.set(&f.configExternal, uintptr(unsafe.Pointer(cstring(o.ExternalInterface))))
	}
	if p := o.Subnet; p.IsValid() {
		// The system takes the address for the host's, whatever Apple's page says of "the subnet address": given the subnet's own,
		// its DHCP server does not start on macOS 27 ("can't have the gateway at the subnet address": farrow, native/mac-network).
		host, mask := in4(p.Masked().Addr().Next()), inAddr(net.CIDRMask(p.Bits(), 32))
		c.set(&f.configSubnet, uintptr(unsafe.Pointer(host)), uintptr(unsafe.Pointer(&mask)))
	}
	if p := o.NAT66Prefix; p.IsValid() {
		addr := in6Addr(p.Masked().Addr().As16())
		c.set(&f.configPrefix6, uintptr(unsafe.Pointer(&addr)), uintptr(p.Bits()))
	}
	if o.MTU != 0 {
		c.set(&f.configMTU, uintptr(o.MTU))
	}
}

// disable turns services off. These calls have no result.
func (c *configuration) disable(o api.NetworkConfig) {
	f := &c.a.f
	for _, d := range []struct {
		f  *fn
		on bool
	}{
		{&f.configNoNAT44, o.DisableNAT44},
		{&f.configNoNAT66, o.DisableNAT66},
		{&f.configNoDHCP, o.DisableDHCP},
		{&f.configNoDNSProxy, o.DisableDNSProxy},
		{&f.configNoRA, o.DisableRA},
	} {
		if d.on && c.err == nil {
			d.f.call(c.ref)
		}
	}
}

// rules adds reservations and forwards.
func (c *configuration) rules(o api.NetworkConfig) {
	for _, r := range o.Reservations {
		mac := etherAddr(r.MAC)
		c.set(&c.a.f.configReserve, uintptr(unsafe.Pointer(&mac)), uintptr(unsafe.Pointer(in4(r.Addr))))
	}
	for _, fw := range o.Forwards {
		r := newRule(fw)
		// The guest's port comes first here, and the host's in the call for an interface.
		c.set(&c.a.f.configForward, r.proto, afInet, r.guestPort, r.hostPort, uintptr(unsafe.Pointer(r.addr)))
	}
}

// use keeps the reference for a call, unless the network was released.
func (n *networkRef) use() (ref uintptr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.released {
		return 0, errors.New("the network was released")
	}
	n.uses++
	return n.ref, nil
}

// drop ends a use, or our own reference.
func (n *networkRef) drop() {
	n.mu.Lock()
	n.uses--
	last := n.uses == 0
	n.mu.Unlock()
	if last {
		n.a.f.cfRelease.call(n.ref)
		n.a.networks.Add(-1)
	}
}

// Start implements api.Network.
func (n *networkRef) Start(ctx context.Context, c api.InterfaceConfig) (api.Interface, error) {
	f := &n.a.f.networkStart
	ref, err := n.use()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	return n.a.start(ctx, f, func(d description) { d.switches(c) }, func(dict, queue, block uintptr) uintptr {
		return f.call(ref, dict, queue, block)
	}, n.drop)
}

// Subnet implements api.Network. The framework tells the host's address, with the mask.
func (n *networkRef) Subnet() netip.Prefix {
	ref, err := n.use()
	if err != nil {
		return netip.Prefix{}
	}
	defer n.drop()
	addr, mask := new(inAddr), new(inAddr)
	n.a.f.networkSubnet.call(ref, uintptr(unsafe.Pointer(addr)), uintptr(unsafe.Pointer(mask)))
	if *addr == (inAddr{}) {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(netip.AddrFrom4(*addr), bits.OnesCount32(binary.BigEndian.Uint32(mask[:]))).Masked()
}

// Release implements api.Network.
func (n *networkRef) Release() {
	n.mu.Lock()
	again := n.released
	n.released = true
	n.mu.Unlock()
	if !again {
		n.drop()
	}
}
