// SPDX-License-Identifier: Apache-2.0

//go:build (darwin || vmnetsim) && (amd64 || arm64)

package ffi

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// A wakeup tells a goroutine that a block was called, through a pipe and the runtime's poller.
//
// Blocks are called on threads that Go does not know. A callback into Go would lend such a thread a context and take it away
// again, ten system calls on Linux, and with Go 1.26 on macOS it may leave the process unable to exec: see
// docs/upstream.md. So the functions of blocks are a few instructions of assembly that do not enter Go: unless the
// wakeup is pending already they call write(2), as a function in C would.
//
// A goroutine that the block made ready itself would run late, besides: the thread goes back into C and leaves behind a
// processor (in the scheduler's sense) that runs nothing, with the goroutine in its queue, and others take from there only
// what they believe to be stuck. The poller is waited for by a thread that takes any free processor.
//
// Answers to starts and stops have one wakeup together, each interface has one for its events.
type wakeup struct {
	flag *wakeFlag
	r, w *os.File
	buf  [1]byte // what wait reads; not a local, which may be allocated

	waits  sync.Mutex // held by wait
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

// close ends the pipe, and a wait under way. A block that is called after that does nothing until the flag is opened again.
func (w *wakeup) close() {
	w.wake()
	w.waits.Lock()
	defer w.waits.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	if w.flag.pending.Swap(1) != 0 { // a block may be about to write a byte, which may not go to what has the descriptor next
		_, _ = w.r.Read(w.buf[:])
	}
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

// wait returns once there was a wake-up since it returned last, or w is closed. One goroutine at a time waits.
func (w *wakeup) wait() {
	w.waits.Lock()
	defer w.waits.Unlock()
	if _, err := w.r.Read(w.buf[:]); err != nil {
		return // and it shall not look as if there could be a wake-up
	}
	// Before what was announced is looked for, so that nothing is overlooked. An exchange, so that all is seen that a block
	// stored before its own.
	w.flag.pending.Swap(0)
}
