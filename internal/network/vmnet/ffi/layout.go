// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"net/netip"
	"sync/atomic"
	"unsafe"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// A blockLiteral is struct Block_literal_1 of the block ABI with what our blocks capture. block_*.s know where that is.
type blockLiteral struct {
	isa        uintptr // &_NSConcreteGlobalBlock
	flags      int32
	reserved   int32
	invoke     uintptr
	descriptor uintptr       // *blockDescriptor
	flag       uintptr       // *wakeFlag, or *collection
	called     atomic.Uint32 // 0: it is waited for that the block is called
	answered   atomic.Uint32 // 1: status and params are those it was called with
	status     uint32
	params     uintptr // XPC dictionary, retained; NULL if there is none
	retain     uintptr // xpc_retain, 0 if the block has no parameters
}

// A blockDescriptor is struct Block_descriptor_1.
type blockDescriptor struct {
	reserved uintptr
	size     uintptr // of the literal, bytes
}

// blockIsGlobal is BLOCK_IS_GLOBAL: copying and releasing do nothing.
const blockIsGlobal = 1 << 28

// Addresses are in network byte order, so they are arrays.
type (
	inAddr    [4]byte  // struct in_addr
	in6Addr   [16]byte // struct in6_addr
	etherAddr [6]byte  // ether_addr_t
)

// What C lays out; first fields are at 0 in any case. A difference is a division by zero while compiling.
const (
	_ = 1 / (1 - (unsafe.Sizeof(blockLiteral{}) ^ 72))
	_ = 1 / (1 - (unsafe.Offsetof(blockLiteral{}.flags) ^ 8))
	_ = 1 / (1 - (unsafe.Offsetof(blockLiteral{}.reserved) ^ 12))
	_ = 1 / (1 - (unsafe.Offsetof(blockLiteral{}.invoke) ^ 16))
	_ = 1 / (1 - (unsafe.Offsetof(blockLiteral{}.descriptor) ^ 24))
	_ = 1 / (1 - (unsafe.Offsetof(blockLiteral{}.flag) ^ 32))
	_ = 1 / (1 - (unsafe.Offsetof(blockLiteral{}.called) ^ 40))
	_ = 1 / (1 - (unsafe.Offsetof(blockLiteral{}.answered) ^ 44))
	_ = 1 / (1 - (unsafe.Offsetof(blockLiteral{}.status) ^ 48))
	_ = 1 / (1 - (unsafe.Offsetof(blockLiteral{}.params) ^ 56))
	_ = 1 / (1 - (unsafe.Offsetof(blockLiteral{}.retain) ^ 64))
	_ = 1 / (1 - (unsafe.Sizeof(wakeFlag{}) ^ 64))
	_ = 1 / (1 - (unsafe.Offsetof(wakeFlag{}.fd) ^ 4))
	_ = 1 / (1 - (unsafe.Offsetof(wakeFlag{}.write) ^ 8))
	_ = 1 / (1 - (unsafe.Offsetof(wakeFlag{}.bytes) ^ 16))
	_ = 1 / (1 - (unsafe.Offsetof(collection{}.pairs) ^ 8))
	_ = 1 / (1 - (maxEntries ^ 255))
	_ = 1 / (1 - (api.Success ^ 1000))
	_ = 1 / (1 - (unsafe.Sizeof(blockDescriptor{}) ^ 16))
	_ = 1 / (1 - (unsafe.Offsetof(blockDescriptor{}.size) ^ 8))
	_ = 1 / (1 - (unsafe.Sizeof(inAddr{}) ^ 4))
	_ = 1 / (1 - (unsafe.Sizeof(in6Addr{}) ^ 16))
	_ = 1 / (1 - (unsafe.Sizeof(etherAddr{}) ^ 6))
)

// Constants of vmnet.h and of macOS's socket headers.
const (
	packetsAvailable = 1 // VMNET_INTERFACE_PACKETS_AVAILABLE
	afInet           = 2
)

// modes are vmnet_mode_t.
var modes = map[network.Mode]uintptr{network.ModeHost: 1000, network.ModeShared: 1001, network.ModeBridged: 1002}

// protocols are IPPROTO_*.
var protocols = map[string]uintptr{"tcp": 6, "udp": 17}

// pointer makes a C address a pointer, the way that vet takes. It is never one of Go's heap.
func pointer(u uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&u)) }

// cstring copies s to where C reads it. The caller keeps it alive, as by passing it to a fn's call.
func cstring(s string) *byte { return unsafe.SliceData(append([]byte(s), 0)) }

// gostring copies a C string; that of NULL is empty.
func gostring(p uintptr) string {
	if p == 0 {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(pointer(p)), n))
}

// A rule is a network.Forward as C takes it. Ports are in host byte order.
type rule struct {
	proto, hostPort, guestPort uintptr
	addr                       *inAddr
}

func newRule(fw network.Forward) rule {
	return rule{proto: protocols[fw.Proto], hostPort: uintptr(fw.HostPort), guestPort: uintptr(fw.Guest.Port()), addr: in4(fw.Guest.Addr())}
}

// in4 is an IPv4 address as a struct in_addr.
func in4(a netip.Addr) *inAddr {
	b := inAddr(a.As4())
	return &b
}
