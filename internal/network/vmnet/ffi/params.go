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
	"sync"
	"unsafe"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// params copies what is in the dictionary of a start handler.
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
	for _, p := range a.blocks.collector.collect(a, dict) {
		list = append(list, api.Entry{Key: gostring(p.key), Value: a.value(p.value)})
	}
	slices.SortFunc(list, func(x, y api.Entry) int { return strings.Compare(x.Key, y.Key) })
	return list
}

// maxEntries is how many entries of a dictionary are looked at. macOS 26 gives about ten.
const maxEntries = 255

// A collection is the entries of a dictionary. Its layout is known to block_*.s.
type collection struct {
	n     uintptr
	pairs [maxEntries]pair
}

// A pair is addresses that are good for as long as the dictionary is.
type pair struct{ key, value uintptr }

// A collector is a block for xpc_dictionary_apply. It lies in mapped memory.
type collector struct {
	mu         sync.Mutex
	block      blockLiteral
	descriptor blockDescriptor
	list       collection
}

func newCollector(isa uintptr) (*collector, error) {
	mem, err := mapped[collector](1)
	if err != nil {
		return nil, err
	}
	c := &mem[0]
	c.descriptor.size = unsafe.Sizeof(blockLiteral{})
	c.block.isa, c.block.flags, c.block.invoke = isa, blockIsGlobal, blockCollectAddress
	c.block.descriptor, c.block.flag = uintptr(unsafe.Pointer(&c.descriptor)), uintptr(unsafe.Pointer(&c.list))
	return c, nil
}

// collect returns the entries of a dictionary.
func (c *collector) collect(a *API, dict uintptr) []pair {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list.n = 0
	a.f.dictApply.call(dict, uintptr(unsafe.Pointer(&c.block)))
	return slices.Clone(c.list.pairs[:c.list.n])
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
			u := *(*[16]byte)(pointer(p))
			return fmt.Sprintf("%X-%X-%X-%X-%X", u[:4], u[4:6], u[6:8], u[8:10], u[10:]) // as macOS prints it
		}
	}
	return "(unknown type)"
}
