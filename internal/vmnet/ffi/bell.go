// SPDX-License-Identifier: Apache-2.0

//go:build (darwin || vmnetsim) && (amd64 || arm64)

package ffi

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A bell tells a goroutine of events, through a pipe and the runtime's poller.
//
// The block of an event comes on a thread that Go does not know. A callback into Go would lend that thread a context and
// take it away again, ten system calls on Linux, and purego allocates for its arguments. So the function of the block is a
// few instructions of assembly, strike, that do not enter Go: unless the bell is rung already they call write(2), as a
// function in C would.
//
// A goroutine that the block made ready itself would run late, besides: the thread goes back into C and leaves behind a
// processor (in the scheduler's sense) that runs nothing, with the goroutine in its queue, and others take from there only
// what they believe to be stuck. The poller is waited for by a thread that takes any free processor.
//
// A bell belongs to a slot of the table of event blocks. It is closed only after a stop whose handler came: the queue is
// serial, so no strike is under way then. Else it is kept for the next user of the slot, who may be woken once for nothing.
type bell struct {
	chime *chime
	r, w  *os.File
	heard [1]byte // what hear reads; not a local, which may be allocated

	mu     sync.Mutex // for ring
	closed bool
}

// A chime is what strike knows of a bell. It is in mapped memory, and its layout in strike_*.s.
type chime struct {
	rung   atomic.Uint32 // 1: and not heard yet, so there is a byte in the pipe, or about to be; or there is no pipe
	fd     int32         // of the pipe
	write  uintptr       // libSystem's
	stroke [48]byte      // the first of them is what is written; so much that a chime has a cache line
}

// strikeAddress is the address of strike, for C.
var strikeAddress uintptr

// open makes the pipe. write is the address of write(2).
func (c *chime) open(write uintptr) (*bell, error) {
	b := &bell{chime: c}
	var err error
	if b.r, b.w, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("make a pipe for events: %w", err)
	}
	conn, err := b.w.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { c.fd = int32(fd) })
	}
	if err != nil {
		return nil, fmt.Errorf("make a pipe for events: %w", err)
	}
	c.write = write
	c.rung.Store(0)
	return b, nil
}

// close ends the pipe, and a hear that waits. The chime may be used for another bell then.
func (b *bell) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.chime.rung.Store(1) // a strike that comes nevertheless does nothing
	_ = b.w.Close()
	_ = b.r.Close()
}

// ring does what strike does. It may be called at any time.
func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && b.chime.rung.Swap(1) == 0 {
		_, _ = b.w.Write(b.chime.stroke[:1])
	}
}

// hear waits until the bell has been rung since hear was called last. One goroutine at a time hears it.
func (b *bell) hear() {
	if _, err := b.r.Read(b.heard[:]); err != nil {
		return // it is closed, and shall not look as if it could be rung
	}
	// Before the packets are looked for, so that none is overlooked. An exchange, so that the packets are seen that a strike
	// before it was about.
	b.chime.rung.Swap(0)
}

// Bells are those of the process, by slot of the table of event blocks.
type bells struct {
	chimes []chime // in mapped memory

	mu   sync.Mutex
	made [maxBlocks]*bell
}

func newBells() (*bells, error) {
	size := maxBlocks * int(unsafe.Sizeof(chime{}))
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map memory for events: %w", err)
	}
	return &bells{chimes: unsafe.Slice((*chime)(unsafe.Pointer(&mem[0])), maxBlocks)}, nil
}

// close closes the bell of a slot.
func (b *bells) close(slot int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made[slot].close()
	b.made[slot] = nil
}

// of is the bell of a slot, which is made if there is none.
func (b *bells) of(slot int, write uintptr) (*bell, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.made[slot] == nil {
		made, err := b.chimes[slot].open(write)
		if err != nil {
			return nil, err
		}
		b.made[slot] = made
	}
	return b.made[slot], nil
}

// eventBlock takes an event block and its bell.
func (a *API) eventBlock() (*handler[*bell], error) {
	h, err := a.blocks.event.take(a.s.globalBlock, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make event block: %w", err)
	}
	if h.do, err = a.blocks.bells.of(h.slot, a.s.write); err != nil {
		a.blocks.event.put(h)
		return nil, err
	}
	if h.do.chime.rung.Load() != 0 { // for the user before
		h.do.hear()
	}
	a.blocks.event.literals[h.slot].chime = uintptr(unsafe.Pointer(h.do.chime))
	return h, nil
}
