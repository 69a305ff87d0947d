// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"fmt"
	"net/netip"
	"unsafe"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
)

// A description collects what an interface is started with. Nothing is made in C before it is complete, so that a key that
// this macOS does not have costs nothing.
type description struct {
	a   *API
	set []func(dict uintptr)
	err error // the first
}

// add notes a key whose value f sets.
func (d *description) add(k *key, f func(dict, key uintptr)) {
	if k.addr == 0 {
		if d.err == nil {
			d.err = missing(k.name, k.since)
		}
		return
	}
	d.set = append(d.set, func(dict uintptr) { f(dict, k.addr) })
}

func (d *description) uint64(k *key, v uint64) {
	d.add(k, func(dict, key uintptr) { d.a.f.dictSetUint64.call(dict, key, uintptr(v)) })
}

// bool sets a switch. Where macOS does not know it, off is what it is.
func (d *description) bool(k *key, v bool) {
	if !v && k.addr == 0 {
		return
	}
	var b uintptr
	if v {
		b = 1
	}
	d.add(k, func(dict, key uintptr) { d.a.f.dictSetBool.call(dict, key, b) })
}

// string sets a text, unless it is empty.
func (d *description) string(k *key, v string) {
	if v != "" {
		d.add(k, func(dict, key uintptr) { d.a.f.dictSetString.call(dict, key, uintptr(unsafe.Pointer(cstring(v)))) })
	}
}

// addr sets an address, unless it is the zero Addr.
func (d *description) addr(k *key, v netip.Addr) {
	if v.IsValid() {
		d.string(k, v.String())
	}
}

// uuid sets a UUID, unless it is null.
func (d *description) uuid(k *key, v [16]byte) {
	if v != ([16]byte{}) {
		d.add(k, func(dict, key uintptr) { d.a.f.dictSetUUID.call(dict, key, uintptr(unsafe.Pointer(&v))) })
	}
}

// switches are the keys that an interface on a network takes as well.
func (d *description) switches(c api.InterfaceConfig) {
	d.bool(&d.a.k.isolation, c.Isolate)
	d.bool(&d.a.k.tso, c.Offload)
	d.bool(&d.a.k.checksum, c.Offload)
}

// dictionary makes the XPC dictionary. The caller releases it.
func (d *description) dictionary() (uintptr, error) {
	if d.err != nil {
		return 0, d.err
	}
	dict := d.a.f.dictCreate.call(0, 0, 0)
	for _, set := range d.set {
		set(dict)
	}
	return dict, nil
}

// describe is the description of a plain interface.
func (a *API) describe(c api.InterfaceConfig) (*description, error) {
	mode, ok := modes[c.Mode]
	if !ok {
		return nil, fmt.Errorf("vmnet_start_interface: unknown mode %q", c.Mode)
	}
	given := 0
	for _, addr := range []netip.Addr{c.Start, c.End, c.Mask} {
		if addr.Is4() {
			given++
		}
	}
	if given != 0 && given != 3 {
		return nil, fmt.Errorf("vmnet_start_interface: gateway %v, last address %v, mask %v: want three IPv4 addresses, or none",
			c.Start, c.End, c.Mask)
	}
	d := &description{a: a}
	d.uint64(&a.k.mode, uint64(mode))
	d.string(&a.k.sharedInterface, c.SharedInterface)
	d.addr(&a.k.start, c.Start)
	d.addr(&a.k.end, c.End)
	d.addr(&a.k.mask, c.Mask)
	d.uuid(&a.k.interfaceID, c.InterfaceID)
	d.uuid(&a.k.networkID, c.NetworkID)
	d.addr(&a.k.nat66Prefix, c.NAT66Prefix.Addr())
	if c.MTU != 0 {
		d.uint64(&a.k.mtu, uint64(c.MTU))
	}
	d.switches(c)
	return d, nil
}
