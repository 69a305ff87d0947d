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

// A wakeup tells a goroutine that a block was called, through a pipe and the runtime's poller.
//
// Blocks are called on threads that Go does not know. A callback into Go would lend such a thread a context and take it away
// again, ten system calls on Linux, and with Go 1.26 on macOS it may leave the process unable to exec: see
// docs/upstream/go-preemptone.md. So the functions of blocks are a few instructions of assembly that do not enter Go: unless the
// wakeup is pending already they call write(2), as a function in C would.
//
// A goroutine that the block made ready itself would run late, besides: the thread goes back into C and leaves behind a
// processor (in the scheduler's sense) that runs nothing, with the goroutine in its queue, and others take from there only
// what they believe to be stuck. The poller is waited for by a thread that takes any free processor.
//
// Answers to starts and stops have one wakeup together. Each slot of the table of event blocks has its own. That is closed only
// after a stop whose handler came: the queue is serial, so no event is under way then. Else it is kept for the next user of the
// slot, who may be woken once for nothing.
type wakeup struct {
	flag *wakeFlag
	r, w *os.File
	buf  [1]byte // what wait reads; not a local, which may be allocated

	mu     sync.Mutex // for wake
	closed bool
}

// A wakeFlag is what blocks know of a wakeup. It is in mapped memory, and its layout in block_*.s.
type wakeFlag struct {
	pending atomic.Uint32 // 1: there is a byte in the pipe, or about to be; or there is no pipe
	fd      int32         // of the pipe
	write   uintptr       // libSystem's
	bytes   [48]byte      // the first of them is what is written; so much that a flag has a cache line
}

// open makes the pipe. write is the address of write(2).
func (f *wakeFlag) open(write uintptr) (*wakeup, error) {
	w := &wakeup{flag: f}
	var err error
	if w.r, w.w, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("make a pipe for events: %w", err)
	}
	conn, err := w.w.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { f.fd = int32(fd) })
	}
	if err != nil {
		return nil, fmt.Errorf("make a pipe for events: %w", err)
	}
	f.write = write
	f.pending.Store(0)
	return w, nil
}

// close ends the pipe, and a wait under way. The flag may be used for another wakeup then.
func (w *wakeup) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.flag.pending.Store(1) // a block that is called nevertheless does nothing
	_ = w.w.Close()
	_ = w.r.Close()
}

// wake does what a block does. It may be called at any time.
func (w *wakeup) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed && w.flag.pending.Swap(1) == 0 {
		_, _ = w.w.Write(w.flag.bytes[:1])
	}
}

// wait returns once there was a wake-up since it returned last, or with false when w is closed. One goroutine at a time waits.
func (w *wakeup) wait() bool {
	if _, err := w.r.Read(w.buf[:]); err != nil {
		return false // and it shall not look as if there could be a wake-up
	}
	// Before what was announced is looked for, so that nothing is overlooked. An exchange, so that all is seen that a block
	// stored before its own.
	w.flag.pending.Swap(0)
	return true
}

// Wakeups are those of the process: by slot of the table of event blocks, and one for answers.
type wakeups struct {
	write uintptr
	flags []wakeFlag // in mapped memory

	mu   sync.Mutex
	made [maxBlocks + 1]*wakeup
}

func newWakeups(write uintptr) (*wakeups, error) {
	w := &wakeups{write: write}
	size := len(w.made) * int(unsafe.Sizeof(wakeFlag{}))
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map memory for events: %w", err)
	}
	w.flags = unsafe.Slice((*wakeFlag)(unsafe.Pointer(&mem[0])), len(w.made))
	return w, nil
}

// close closes the wakeup of a slot.
func (w *wakeups) close(slot int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made[slot].close()
	w.made[slot] = nil
}

// of is the wakeup of a slot, which is made if there is none.
func (w *wakeups) of(slot int) (*wakeup, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.made[slot] == nil {
		made, err := w.flags[slot].open(w.write)
		if err != nil {
			return nil, err
		}
		w.made[slot] = made
	}
	return w.made[slot], nil
}

// eventBlock takes an event block and its wakeup.
func (a *API) eventBlock() (*handler[*wakeup], error) {
	h, err := a.blocks.event.take(a.s.globalBlock, 0, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make event block: %w", err)
	}
	if h.do, err = a.blocks.wakeups.of(h.slot); err != nil {
		a.blocks.event.cancel(h)
		return nil, err
	}
	if h.do.flag.pending.Load() != 0 { // for the user before
		h.do.wait()
	}
	a.blocks.event.literals[h.slot].flag = uintptr(unsafe.Pointer(h.do.flag))
	return h, nil
}
