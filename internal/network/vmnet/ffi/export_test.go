// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"math"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// used counts the slots in use.
func (t *table[H]) used() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.fresh
	for _, free := range t.free {
		n -= len(free)
	}
	return n
}

// Gauges are what exists on this side. Blocks are those of the process.
type Gauges struct {
	Interfaces, Queues, Networks int64
	Events, Starts, Answers      int // blocks
}

// Add adds o.
func (g *Gauges) Add(o Gauges) {
	g.Interfaces += o.Interfaces
	g.Queues += o.Queues
	g.Networks += o.Networks
	g.Events += o.Events
	g.Starts += o.Starts
	g.Answers += o.Answers
}

// Gauges counts.
func (a *API) Gauges() Gauges {
	return Gauges{
		Interfaces: a.interfaces.Load(), Queues: a.queues.Load(), Networks: a.networks.Load(),
		Events: a.blocks.event.used(), Starts: a.blocks.start.used(), Answers: a.blocks.status.used(),
	}
}

// BlocksMade is how many blocks of all signatures were ever in use at once.
func (a *API) BlocksMade() int {
	return a.blocks.event.fresh + a.blocks.start.fresh + a.blocks.status.fresh
}

// Functions are the names of all functions that are bound and there.
func (a *API) Functions() (names []string) {
	for _, s := range a.f.table() {
		if s.fn.addr != 0 {
			names = append(names, s.name)
		}
	}
	return names
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

// A Table is a table of blocks that a test calls.
type Table struct{ *table[answerFunc] }

// NewTable makes a table that is not the process's.
func NewTable() (Table, error) {
	flag := new(wakeFlag)
	flag.pending.Store(1) // it has no pipe
	t, err := newTable[answerFunc](blockAnswerAddress, flag)
	return Table{t}, err
}

// Size is how many blocks there are at most.
const Size = maxBlocks

// Take takes a block without parameters.
func (t Table) Take(isa uintptr, do func(api.Status), abandon func()) (*handler[answerFunc], error) {
	return t.take(isa, 0, func(st api.Status, _ uintptr) { do(st) }, abandon)
}

// Call calls a block as C does. It reports whether it is an answer.
func (t Table) Call(block uintptr, st api.Status) bool {
	l := (*blockLiteral)(pointer(block))
	counts := l.called.Load() == 0
	_, _, _ = purego.SyscallN(l.invoke, block, uintptr(st), 0xbad)
	return counts
}

// Deliver calls the handlers of blocks that were called.
func (t Table) Deliver() { deliver(t.table) }

// Cancel gives a block up.
func (t Table) Cancel(h *handler[answerFunc]) bool { return t.cancel(h) }

// Block is the address of a block.
func (h *handler[H]) Block() uintptr { return h.block }

// Age makes h look as if it had been waited for for too long.
func (h *handler[H]) Age() { h.since = h.since.Add(-lostAfter) }

// Used counts the blocks in use.
func (t Table) Used() int { return t.used() }

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
