// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
)

const (
	// maxBlocks is how many blocks of one signature there can be at once. Apple documents 32 interfaces; the rest is for
	// handlers that never come.
	maxBlocks = 1024

	// lostAfter is how long a handler is waited for before its block may be used again when there is no other.
	lostAfter = 10 * time.Minute
)

// The handlers by signature.
type (
	startFunc  func(st api.Status, params uintptr)
	statusFunc func(st api.Status)
	applyFunc  func(key, value uintptr)
)

// Tables are the blocks of the process.
type tables struct {
	event  *table[*bell] // these are not called: their function is strike
	start  *table[startFunc]
	status *table[statusFunc]
	apply  *table[applyFunc]
	bells  *bells
}

// blocks returns the tables, which are made once: callbacks cannot be given back.
var blocks = sync.OnceValues(func() (t tables, err error) {
	if t.event, err = newTable[*bell](); err != nil {
		return t, err
	}
	if t.start, err = newTable[startFunc](); err != nil {
		return t, err
	}
	if t.status, err = newTable[statusFunc](); err != nil {
		return t, err
	}
	if t.apply, err = newTable[applyFunc](); err != nil {
		return t, err
	}
	if t.bells, err = newBells(); err != nil {
		return t, err
	}
	t.event.invoke = strikeAddress
	// Every function gets the block first.
	t.start.invoke = purego.NewCallback(func(block uintptr, st uint32, params uintptr) {
		if h := t.start.find(block); h != nil && t.start.put(h) {
			h.do(api.Status(st), params)
		}
	})
	t.status.invoke = purego.NewCallback(func(block uintptr, st uint32) {
		if h := t.status.find(block); h != nil && t.status.put(h) {
			h.do(api.Status(st))
		}
	})
	t.apply.invoke = purego.NewCallback(func(block, key, value uintptr) bool {
		h := t.apply.find(block)
		if h != nil {
			h.do(key, value)
		}
		return h != nil // go on
	})
	return t, nil
})

// A table is the blocks of one signature and their handlers.
type table[H any] struct {
	invoke     uintptr // the C callback
	descriptor uintptr
	literals   []blockLiteral // in mapped memory: C may keep their addresses for ever
	handlers   []atomic.Pointer[handler[H]]

	mu    sync.Mutex
	free  map[uintptr][]int // by isa: a block is written once, as C may look at it even after its handler ran
	fresh int               // slots from here on were never used
}

// A handler is what a block in use calls. It is used once, so that its address tells one use of a slot from another.
type handler[H any] struct {
	do      H
	abandon func() // called when the slot is used again although the handler never came; may be nil
	block   uintptr
	slot    int
	since   time.Time
}

func newTable[H any]() (*table[H], error) {
	const head = unsafe.Sizeof(blockDescriptor{})
	size := int(head) + maxBlocks*int(unsafe.Sizeof(blockLiteral{}))
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map memory for blocks: %w", err)
	}
	d := (*blockDescriptor)(unsafe.Pointer(&mem[0]))
	d.size = unsafe.Sizeof(blockLiteral{})
	return &table[H]{
		descriptor: uintptr(unsafe.Pointer(d)),
		literals:   unsafe.Slice((*blockLiteral)(unsafe.Pointer(&mem[head])), maxBlocks),
		handlers:   make([]atomic.Pointer[handler[H]], maxBlocks),
		free:       make(map[uintptr][]int),
	}, nil
}

// take makes a block that calls do. isa is the address of _NSConcreteGlobalBlock, of which there is one per library.
func (t *table[H]) take(isa uintptr, do H, abandon func()) (*handler[H], error) {
	t.mu.Lock()
	slot := t.slot(isa)
	t.mu.Unlock()
	if slot < 0 {
		return nil, fmt.Errorf("%w: %d handlers were never called, the oldest less than %v ago", api.ErrNoAnswer, maxBlocks, lostAfter)
	}
	block := uintptr(unsafe.Pointer(&t.literals[slot]))
	h := &handler[H]{do: do, abandon: abandon, block: block, slot: slot, since: time.Now()}
	t.handlers[slot].Store(h)
	return h, nil
}

// slot is a slot that nobody uses, with its block written, or -1. t.mu is held.
func (t *table[H]) slot(isa uintptr) int {
	if free := t.free[isa]; len(free) > 0 {
		slot := free[len(free)-1]
		t.free[isa] = free[:len(free)-1]
		return slot
	}
	if t.fresh < maxBlocks {
		t.literals[t.fresh] = blockLiteral{
			isa: isa, flags: blockIsGlobal, invoke: t.invoke, descriptor: t.descriptor, slot: uintptr(t.fresh),
		}
		t.fresh++
		return t.fresh - 1
	}
	return t.reclaim(isa)
}

// reclaim gives up the handler that has been waited for longest. t.mu is held.
func (t *table[H]) reclaim(isa uintptr) int {
	var oldest *handler[H]
	for i := range t.handlers {
		h := t.handlers[i].Load()
		if h != nil && t.literals[i].isa == isa && (oldest == nil || h.since.Before(oldest.since)) {
			oldest = h
		}
	}
	if oldest == nil || time.Since(oldest.since) < lostAfter || !t.handlers[oldest.slot].CompareAndSwap(oldest, nil) {
		return -1
	}
	if oldest.abandon != nil {
		oldest.abandon()
	}
	return oldest.slot
}

// put frees the slot of h. It reports whether h still had it: true exactly once for every take.
func (t *table[H]) put(h *handler[H]) bool {
	if !t.handlers[h.slot].CompareAndSwap(h, nil) {
		return false
	}
	t.mu.Lock()
	isa := t.literals[h.slot].isa
	t.free[isa] = append(t.free[isa], h.slot)
	t.mu.Unlock()
	return true
}

// find is the handler of a block that was called, nil if none is waited for.
func (t *table[H]) find(block uintptr) *handler[H] {
	slot := (*blockLiteral)(pointer(block)).slot
	if slot >= maxBlocks {
		return nil
	}
	return t.handlers[slot].Load()
}
