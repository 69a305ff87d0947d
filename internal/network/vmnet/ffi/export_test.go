// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"math"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// Gauges are what exists on this side.
type Gauges struct {
	Interfaces, Queues, Networks int64
	Answers                      int // that are waited for
}

// Add adds o.
func (g *Gauges) Add(o Gauges) {
	g.Interfaces += o.Interfaces
	g.Queues += o.Queues
	g.Networks += o.Networks
	g.Answers += o.Answers
}

// Gauges counts.
func (a *API) Gauges() Gauges {
	a.blocks.mu.Lock()
	defer a.blocks.mu.Unlock()
	return Gauges{Interfaces: a.interfaces.Load(), Queues: a.queues.Load(), Networks: a.networks.Load(), Answers: len(a.blocks.waiting)}
}

// Idle is how many blocks were used and can be again.
func (a *API) Idle() int {
	a.blocks.mu.Lock()
	defer a.blocks.mu.Unlock()
	return len(a.blocks.idle) + len(a.blocks.events)
}

// OpenLibrary looks for the framework's symbols in any library.
func OpenLibrary(path string) error {
	h, err := purego.Dlopen(path, purego.RTLD_NOW)
	if err == nil {
		_, err = newAPI(h)
	}
	return err
}

// symbol is a function that the binding does not use.
func (a *API) symbol(name string) *fn {
	addr, err := a.lookup(name)
	if err != nil {
		panic(err)
	}
	return &fn{addr: addr}
}

// MadeUpParams reads parameters from a dictionary that no framework would make.
func (a *API) MadeUpParams() api.Params {
	dict := a.f.dictCreate.call(0, 0, 0)
	defer a.f.xpcRelease.call(dict)
	a.f.dictSetUint64.call(dict, uintptr(unsafe.Pointer(cstring("uint64"))), math.MaxUint64)
	a.f.dictSetBool.call(dict, uintptr(unsafe.Pointer(cstring("bool"))), 1)
	a.f.dictSetBool.call(dict, uintptr(unsafe.Pointer(cstring("no"))), 0)
	a.f.dictSetString.call(dict, uintptr(unsafe.Pointer(cstring("string"))), uintptr(unsafe.Pointer(cstring("text with 汉字"))))
	uuid := &[16]byte{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	a.f.dictSetUUID.call(dict, uintptr(unsafe.Pointer(cstring("uuid"))), uintptr(unsafe.Pointer(uuid)))
	minus := int64(-5)
	a.symbol("xpc_dictionary_set_int64").call(dict, uintptr(unsafe.Pointer(cstring("int64"))), uintptr(minus))
	if list := a.f.sharedInterfaces.call(); list != 0 {
		a.symbol("xpc_dictionary_set_value").call(dict, uintptr(unsafe.Pointer(cstring("a list"))), list)
		a.f.xpcRelease.call(list)
	}

	a.f.dictSetString.call(dict, a.k.mac.addr, uintptr(unsafe.Pointer(cstring("not one"))))
	a.f.dictSetString.call(dict, a.k.maxPacket.addr, uintptr(unsafe.Pointer(cstring("a text"))))
	a.f.dictSetString.call(dict, a.k.start.addr, uintptr(unsafe.Pointer(cstring("300.1.2.3"))))
	a.f.dictSetUint64.call(dict, a.k.mtu.addr, 1<<40)
	return a.params(dict)
}

// A Block is one for an answer without parameters, for tests to call.
type Block struct {
	*block
	of      *blocks
	Answers <-chan answer
}

// Block takes a block.
func (a *API) Block() (Block, error) {
	b, answers, err := a.blocks.answerBlock(0)
	return Block{b, a.blocks, answers}, err
}

// Call calls the block as C does.
func (b Block) Call(st api.Status) {
	_, _, _ = purego.SyscallN(b.literal.invoke, b.address(), uintptr(st), 0xbad)
}

// GiveUp gives the block up.
func (b Block) GiveUp() bool { return b.of.giveUp(b.block, b.Answers) }

// Answer makes what Block.Answers has.
func Answer(st api.Status) answer { return answer{status: st} }

// HoldNetworkStarts has calls of vmnet_interface_start_with_network wait before they do anything: calling gets a value for
// each, resume lets them go on and ends the holding.
func (a *API) HoldNetworkStarts() (calling <-chan struct{}, resume func()) {
	in, out, real := make(chan struct{}), make(chan struct{}), a.f.networkStart.addr
	a.f.networkStart.addr = purego.NewCallback(func(ref, dict, queue, block uintptr) uintptr {
		in <- struct{}{}
		<-out
		r, _, _ := purego.SyscallN(real, ref, dict, queue, block)
		return r
	})
	return in, func() {
		a.f.networkStart.addr = real
		close(out)
	}
}
