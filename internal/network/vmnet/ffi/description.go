// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"net/netip"
	"unsafe"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// A description is the XPC dictionary that an interface is started with. Its methods set nothing for a zero value, but for bool.
type description struct {
	a    *API
	dict uintptr
}

func (d description) uint64(k *key, v uint64) {
	if v != 0 {
		d.a.f.dictSetUint64.call(d.dict, k.addr, uintptr(v))
	}
}

func (d description) bool(k *key, v bool) {
	var b uintptr
	if v {
		b = 1
	}
	d.a.f.dictSetBool.call(d.dict, k.addr, b)
}

func (d description) string(k *key, v string) {
	if v != "" {
		d.a.f.dictSetString.call(d.dict, k.addr, uintptr(unsafe.Pointer(cstring(v))))
	}
}

func (d description) addr(k *key, v netip.Addr) {
	if v.IsValid() {
		d.string(k, v.String())
	}
}

func (d description) uuid(k *key, v [16]byte) {
	if v != ([16]byte{}) {
		d.a.f.dictSetUUID.call(d.dict, k.addr, uintptr(unsafe.Pointer(&v)))
	}
}

// switches are the keys that an interface on a network takes as well.
func (d description) switches(c api.InterfaceConfig) {
	d.bool(&d.a.k.isolation, c.Isolate)
	d.bool(&d.a.k.tso, c.Offload)
	d.bool(&d.a.k.checksum, c.Offload)
}

// plain describes a plain interface.
func (d description) plain(c api.InterfaceConfig) {
	k := &d.a.k
	d.uint64(&k.mode, uint64(modes[c.Mode]))
	d.string(&k.sharedInterface, c.SharedInterface)
	d.addr(&k.start, c.Start)
	d.addr(&k.end, c.End)
	d.addr(&k.mask, c.Mask)
	d.uuid(&k.interfaceID, c.InterfaceID)
	d.uuid(&k.networkID, c.NetworkID)
	d.addr(&k.nat66Prefix, c.NAT66Prefix.Addr())
	d.uint64(&k.mtu, uint64(c.MTU))
	d.switches(c)
}
