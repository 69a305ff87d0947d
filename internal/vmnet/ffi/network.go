// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"sync"
	"unsafe"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// networkFunctions are those that any network needs.
func (a *API) networkFunctions() []*fn {
	return []*fn{&a.f.configCreate, &a.f.networkCreate, &a.f.networkStart, &a.f.networkSubnet}
}

// A Network is a vmnet_network_ref.
type Network struct {
	a *API

	mu       sync.Mutex
	ref      uintptr // 0: released
	uses     int     // our reference, and calls under way
	released bool
	subnet   netip.Prefix // as last told
	prefix6  netip.Prefix
}

var _ api.Network = (*Network)(nil)

// An option is one call on a configuration.
type option struct {
	f    *fn
	void bool // it has no result
	call func(config uintptr) uintptr
}

// NewNetwork implements api.API. It takes as long as the framework takes.
func (a *API) NewNetwork(c api.NetworkConfig) (api.Network, error) {
	options, err := a.options(c)
	if err != nil {
		return nil, err
	}
	if err := need(a.networkFunctions()...); err != nil {
		return nil, err
	}
	for _, o := range options {
		if err := need(o.f); err != nil {
			return nil, err
		}
	}
	status := new(uint32)
	*status = uint32(api.Failure)
	config := a.f.configCreate.call(modes[c.Mode], uintptr(unsafe.Pointer(status)))
	if config == 0 {
		return nil, a.f.configCreate.refused(*status)
	}
	defer a.f.cfRelease.call(config)
	for _, o := range options {
		st := o.call(config)
		if err := o.f.failed(api.Status(uint32(st))); err != nil && !o.void {
			return nil, err
		}
	}
	*status = uint32(api.Failure)
	ref := a.f.networkCreate.call(config, uintptr(unsafe.Pointer(status)))
	if ref == 0 {
		return nil, a.f.networkCreate.refused(*status)
	}
	a.networks.Add(1)
	return &Network{a: a, ref: ref, uses: 1}, nil
}

// refused is the error of a function that returned NULL. Some status says why.
func (f *fn) refused(status uint32) error {
	if api.Status(status) == api.Success {
		status = uint32(api.Failure)
	}
	return f.failed(api.Status(status))
}

// options are the calls that c asks for.
func (a *API) options(c api.NetworkConfig) (list []option, err error) {
	if c.Mode != vnet.ModeHost && c.Mode != vnet.ModeShared {
		return nil, fmt.Errorf("%s: mode %q: want host or shared", a.f.configCreate.name, c.Mode)
	}
	set := func(f *fn, call func(config uintptr) uintptr) { list = append(list, option{f, false, call}) }
	if c.ExternalInterface != "" {
		set(&a.f.configExternal, func(config uintptr) uintptr {
			return a.f.configExternal.call(config, uintptr(unsafe.Pointer(cstring(c.ExternalInterface))))
		})
	}
	if p := c.Subnet; p.IsValid() {
		if !p.Addr().Is4() {
			return nil, fmt.Errorf("%s: %v is not IPv4", a.f.configSubnet.name, p)
		}
		// The system takes the address for the host's, whatever Apple's page says of "the subnet address": given the subnet's own,
		// its DHCP server does not start on macOS 27 ("can't have the gateway at the subnet address": farrow, native/mac-network).
		host := p.Masked().Addr().Next()
		set(&a.f.configSubnet, func(config uintptr) uintptr {
			return a.f.configSubnet.call(config, uintptr(unsafe.Pointer(in4(host))), uintptr(unsafe.Pointer(mask4(p))))
		})
	}
	if p := c.NAT66Prefix; p.IsValid() {
		if !p.Addr().Is6() {
			return nil, fmt.Errorf("%s: %v is not IPv6", a.f.configPrefix6.name, p)
		}
		set(&a.f.configPrefix6, func(config uintptr) uintptr {
			addr := in6Addr(p.Masked().Addr().As16())
			return a.f.configPrefix6.call(config, uintptr(unsafe.Pointer(&addr)), uintptr(p.Bits()))
		})
	}
	if c.MTU != 0 {
		set(&a.f.configMTU, func(config uintptr) uintptr { return a.f.configMTU.call(config, uintptr(c.MTU)) })
	}
	list = append(list, a.disable(c)...)
	reservations, err := a.reserve(c.Reservations)
	if err != nil {
		return nil, err
	}
	forwards, err := a.forward(c.Forwards)
	return slices.Concat(list, reservations, forwards), err
}

func (a *API) reserve(reservations []vnet.Reservation) (list []option, err error) {
	f := &a.f.configReserve
	for _, r := range reservations {
		if len(r.MAC) != len(etherAddr{}) || !r.Addr.Is4() {
			return nil, fmt.Errorf("%s: %v for %v: want an IPv4 address for an Ethernet address", f.name, r.Addr, r.MAC)
		}
		list = append(list, option{f, false, func(config uintptr) uintptr {
			mac := etherAddr(r.MAC)
			return f.call(config, uintptr(unsafe.Pointer(&mac)), uintptr(unsafe.Pointer(in4(r.Addr))))
		}})
	}
	return list, nil
}

func (a *API) forward(forwards []vnet.Forward) (list []option, err error) {
	f := &a.f.configForward
	for _, fw := range forwards {
		r, err := newRule(f, fw)
		if err != nil {
			return nil, err
		}
		list = append(list, option{f, false, func(config uintptr) uintptr {
			// The guest's port comes first here, and the host's in the call for an interface.
			return f.call(config, r.proto, r.family, r.guestPort, r.hostPort, uintptr(unsafe.Pointer(r.addr)))
		}})
	}
	return list, nil
}

// disable are the calls that turn something off; they have no result.
func (a *API) disable(c api.NetworkConfig) (list []option) {
	for _, d := range []struct {
		f  *fn
		on bool
	}{
		{&a.f.configNoNAT44, c.DisableNAT44},
		{&a.f.configNoNAT66, c.DisableNAT66},
		{&a.f.configNoDHCP, c.DisableDHCP},
		{&a.f.configNoDNSProxy, c.DisableDNSProxy},
		{&a.f.configNoRA, c.DisableRA},
	} {
		if d.on {
			list = append(list, option{d.f, true, func(config uintptr) uintptr { return d.f.call(config) }})
		}
	}
	return list
}

// errReleased is for calls after Release.
var errReleased = errors.New("the network was released")

// use keeps the reference for a call, unless the network was released.
func (n *Network) use() (ref uintptr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.released {
		return 0, errReleased
	}
	n.uses++
	return n.ref, nil
}

// drop ends a use, or our own reference.
func (n *Network) drop() {
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
func (n *Network) Start(ctx context.Context, c api.InterfaceConfig) (api.Interface, error) {
	f := &n.a.f.networkStart
	ref, err := n.use()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	d := &description{a: n.a}
	d.switches(c)
	return n.a.start(ctx, f, d, func(dict, queue, block uintptr) uintptr { return f.call(ref, dict, queue, block) }, n.drop)
}

// Subnet implements api.Network.
func (n *Network) Subnet() netip.Prefix {
	n.tell()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.subnet
}

// Prefix6 implements api.Network.
func (n *Network) Prefix6() netip.Prefix {
	n.tell()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.prefix6
}

// tell asks the framework for the addresses; after Release they stay what they were. It gets the host's one, with the mask.
func (n *Network) tell() {
	ref, err := n.use()
	if err != nil {
		return
	}
	defer n.drop()
	addr, mask, addr6, bits6 := new(inAddr), new(inAddr), new(in6Addr), new(uint8)
	n.a.f.networkSubnet.call(ref, uintptr(unsafe.Pointer(addr)), uintptr(unsafe.Pointer(mask)))
	if need(&n.a.f.networkPrefix6) == nil {
		n.a.f.networkPrefix6.call(ref, uintptr(unsafe.Pointer(addr6)), uintptr(unsafe.Pointer(bits6)))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.subnet, n.prefix6 = netip.Prefix{}, netip.Prefix{}
	if *addr != (inAddr{}) {
		ones := 0
		for _, b := range mask {
			ones += bits.OnesCount8(b)
		}
		n.subnet = netip.PrefixFrom(netip.AddrFrom4(*addr), ones).Masked()
	}
	if *addr6 != (in6Addr{}) {
		n.prefix6 = netip.PrefixFrom(netip.AddrFrom16(*addr6), int(*bits6)).Masked()
	}
}

// Release implements api.Network.
func (n *Network) Release() {
	n.mu.Lock()
	again := n.released
	n.released = true
	n.mu.Unlock()
	if !again {
		n.drop()
	}
}
