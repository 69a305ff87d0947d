// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
)

// params copies what is in the dictionary of a start handler, which lives only as long as the handler runs.
func (a *API) params(dict uintptr) (p api.Params) {
	p.Entries = a.entries(dict)
	number := func(v any) int {
		u, _ := v.(uint64)
		return int(min(u, math.MaxInt32))
	}
	addr := func(v any) (ip netip.Addr) {
		if s, ok := v.(string); ok {
			ip, _ = netip.ParseAddr(s)
		}
		return ip
	}
	for _, e := range p.Entries {
		s, _ := e.Value.(string)
		switch e.Key {
		case a.k.mac.text:
			p.MAC, _ = net.ParseMAC(s)
		case a.k.mtu.text:
			p.MTU = number(e.Value)
		case a.k.maxPacket.text:
			p.MaxPacket = number(e.Value)
		case a.k.readMax.text:
			p.ReadMax = number(e.Value)
		case a.k.writeMax.text:
			p.WriteMax = number(e.Value)
		case a.k.interfaceID.text:
			p.InterfaceID = s
		case a.k.start.text:
			p.Start = addr(e.Value)
		case a.k.end.text:
			p.End = addr(e.Value)
		case a.k.mask.text:
			p.Mask = addr(e.Value)
		}
	}
	return p
}

// entries are the keys and values of a dictionary, sorted by key.
func (a *API) entries(dict uintptr) (list []api.Entry) {
	if dict == 0 {
		return nil
	}
	h, err := a.blocks.apply.take(a.s.globalBlock, func(key, value uintptr) {
		list = append(list, api.Entry{Key: gostring(key), Value: a.value(value)})
	}, nil)
	if err != nil {
		return nil
	}
	a.f.dictApply.call(dict, h.block)
	a.blocks.apply.put(h)
	slices.SortFunc(list, func(x, y api.Entry) int { return strings.Compare(x.Key, y.Key) })
	return list
}

// value copies an XPC object.
func (a *API) value(object uintptr) any {
	switch a.f.typeOf.call(object) {
	case a.s.typeUint64:
		return uint64(a.f.uint64Value.call(object))
	case a.s.typeInt64:
		return int64(a.f.int64Value.call(object))
	case a.s.typeBool:
		return byte(a.f.boolValue.call(object)) != 0 // a bool is the lowest byte of the register
	case a.s.typeString:
		return gostring(a.f.stringValue.call(object))
	case a.s.typeUUID:
		if p := a.f.uuidValue.call(object); p != 0 {
			return uuidString(*(*[16]byte)(pointer(p)))
		}
	}
	return "(unknown type)"
}

// uuidString is a UUID the way macOS prints it.
func uuidString(u [16]byte) string {
	return fmt.Sprintf("%X-%X-%X-%X-%X", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}
