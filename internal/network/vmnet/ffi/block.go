// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

const (
	// maxBlocks is how many blocks of one signature there can be at once. Apple documents 32 interfaces; the rest is for
	// handlers that never come.
	maxBlocks = 1024

	// lostAfter is how long a handler is waited for before its block may be used again when there is no other.
	lostAfter = 10 * time.Minute
)

// The functions of blocks, for C: see block_*.s.
var blockEventAddress, blockAnswerAddress, blockCollectAddress uintptr

// An answerFunc is told what the handler of a start, a stop or a rule was called with, on a goroutine. params is NULL unless an
// interface has started; then it was retained.
type answerFunc func(st api.Status, params uintptr)

// Tables are the blocks of the process.
type tables struct {
	event     *table[*wakeup]
	start     *table[answerFunc] // blocks with parameters
	status    *table[answerFunc]
	wakeups   *wakeups
	collector *collector
}

var process struct {
	once   sync.Once
	blocks tables
	err    error
}

// blocks returns the tables, which are made once, as C may call a block at any time. write is the address of write(2).
func blocks(write uintptr) (tables, error) {
	process.once.Do(func() { process.blocks, process.err = newTables(write) })
	return process.blocks, process.err
}

func newTables(write uintptr) (t tables, err error) {
	if t.wakeups, err = newWakeups(write); err != nil {
		return t, err
	}
	answers, err := t.wakeups.of(maxBlocks)
	if err != nil {
		return t, err
	}
	if t.event, err = newTable[*wakeup](blockEventAddress, nil); err != nil {
		return t, err
	}
	if t.start, err = newTable[answerFunc](blockAnswerAddress, answers.flag); err != nil {
		return t, err
	}
	if t.status, err = newTable[answerFunc](blockAnswerAddress, answers.flag); err != nil {
		return t, err
	}
	if t.collector, err = newCollector(); err != nil {
		return t, err
	}
	go serveAnswers(answers, t.start, t.status)
	return t, nil
}

// serveAnswers calls the handlers of blocks that were called, for as long as the process lives.
func serveAnswers(w *wakeup, list ...*table[answerFunc]) {
	for w.wait() {
		for _, t := range list {
			deliver(t)
		}
	}
}

// deliver calls the handlers of the blocks of t that were called.
func deliver(t *table[answerFunc]) {
	for i := range t.handlers {
		l := &t.literals[i]
		if l.answered.Load() == 0 {
			continue
		}
		// Not before: until its block is called a handler may be cancelled, and its slot be another's.
		h := t.handlers[i].Load()
		st, params := l.status, l.params
		l.answered.Store(0)
		t.mu.Lock()
		t.put(h)
		t.mu.Unlock()
		h.do(api.Status(st), params)
	}
}

// A table is the blocks of one signature and their handlers.
type table[H any] struct {
	invoke     uintptr
	flag       *wakeFlag // of all blocks; nil if each has its own
	descriptor uintptr
	literals   []blockLiteral // in mapped memory: C may keep their addresses for ever
	handlers   []atomic.Pointer[handler[H]]

	mu    sync.Mutex
	free  map[uintptr][]int // by isa: a block is written once, as C may look at it even after its handler ran
	fresh int               // slots from here on were never used
}

// A handler is what a block in use stands for. It is used once, so that its address tells one use of a slot from another.
type handler[H any] struct {
	do      H
	abandon func() // called when the slot is used again although the handler never came; may be nil
	block   uintptr
	slot    int
	since   time.Time
}

func newTable[H any](invoke uintptr, flag *wakeFlag) (*table[H], error) {
	const head = unsafe.Sizeof(blockDescriptor{})
	size := int(head) + maxBlocks*int(unsafe.Sizeof(blockLiteral{}))
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map memory for blocks: %w", err)
	}
	d := (*blockDescriptor)(unsafe.Pointer(&mem[0]))
	d.size = unsafe.Sizeof(blockLiteral{})
	return &table[H]{
		invoke: invoke, flag: flag,
		descriptor: uintptr(unsafe.Pointer(d)),
		literals:   unsafe.Slice((*blockLiteral)(unsafe.Pointer(&mem[head])), maxBlocks),
		handlers:   make([]atomic.Pointer[handler[H]], maxBlocks),
		free:       make(map[uintptr][]int),
	}, nil
}

// take makes a block for do. isa is the address of _NSConcreteGlobalBlock, of which there is one per library, and retain that
// of the same library's xpc_retain, or 0 if the block has no parameters.
func (t *table[H]) take(isa, retain uintptr, do H, abandon func()) (*handler[H], error) {
	t.mu.Lock()
	slot := t.slot(isa, retain)
	t.mu.Unlock()
	if slot < 0 {
		return nil, fmt.Errorf("%w: %d handlers were never called, the oldest less than %v ago", api.ErrNoAnswer, maxBlocks, lostAfter)
	}
	l := &t.literals[slot]
	h := &handler[H]{do: do, abandon: abandon, block: uintptr(unsafe.Pointer(l)), slot: slot, since: time.Now()}
	l.status, l.params = 0, 0
	t.handlers[slot].Store(h)
	l.called.Store(0) // from here on an answer counts
	return h, nil
}

// slot is an unused slot, with its block written, or -1. t.mu is held.
func (t *table[H]) slot(isa, retain uintptr) int {
	if free := t.free[isa]; len(free) > 0 {
		slot := free[len(free)-1]
		t.free[isa] = free[:len(free)-1]
		return slot
	}
	if t.fresh < maxBlocks {
		l := &t.literals[t.fresh]
		l.isa, l.flags, l.invoke, l.descriptor = isa, blockIsGlobal, t.invoke, t.descriptor
		l.flag, l.retain = uintptr(unsafe.Pointer(t.flag)), retain
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
	if oldest == nil || time.Since(oldest.since) < lostAfter || !t.close(oldest) {
		return -1
	}
	t.handlers[oldest.slot].Store(nil)
	if oldest.abandon != nil {
		oldest.abandon()
	}
	return oldest.slot
}

// cancel frees the slot of h. A call of its block does nothing then. It reports false if the block was called before.
func (t *table[H]) cancel(h *handler[H]) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.close(h) {
		return false
	}
	t.put(h)
	return true
}

// close has a call of h's block do nothing any more. It reports false if it was called, or closed, before. t.mu is held.
func (t *table[H]) close(h *handler[H]) bool {
	return t.handlers[h.slot].Load() == h && t.literals[h.slot].called.Swap(1) == 0
}

// put frees the slot of h, whose block was called or closed. t.mu is held.
func (t *table[H]) put(h *handler[H]) {
	t.handlers[h.slot].Store(nil)
	isa := t.literals[h.slot].isa
	t.free[isa] = append(t.free[isa], h.slot)
}
