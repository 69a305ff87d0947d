// SPDX-License-Identifier: Apache-2.0

package link

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readBufLen is the size of a read buffer in bytes. Reading 256 KiB at a time cost half the CPU per frame of 16 KiB
	// reads and nothing more was gained at 1 MiB. It holds the longest frame several times over.
	readBufLen = 256 << 10

	// chunkLen is the size of one piece of an overflow queue, in bytes. A piece holds any frame whole.
	chunkLen = 72 << 10

	// trimEvery is how long a buffer lies unused before its memory goes back to the system.
	trimEvery = 250 * time.Millisecond
)

// readBufs and chunks are shared by all clients of the process: a client holds memory only while it has something to read
// or is behind with reading.
var (
	readBufs = pool{size: readBufLen}
	chunks   = pool{size: chunkLen}
)

// A pool is a free list of equal buffers outside the garbage-collected heap, so that traffic makes no garbage and memory
// that was needed once is given back. A timer runs only while buffers lie unused.
type pool struct {
	size int // bytes

	mu    sync.Mutex
	free  [][]byte
	low   int // fewest free buffers since the last trim: that many were not needed
	armed bool
}

// get returns a buffer of p.size bytes with undefined content, or an error when the system has no memory.
func (p *pool) get() ([]byte, error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		p.low = min(p.low, n-1)
		p.mu.Unlock()
		return b, nil
	}
	p.low = 0
	p.mu.Unlock()
	return unix.Mmap(-1, 0, p.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

// put gives a buffer back.
func (p *pool) put(b []byte) {
	p.mu.Lock()
	p.free = append(p.free, b[:p.size])
	if !p.armed {
		p.armed = true
		p.low = len(p.free)
		time.AfterFunc(trimEvery, p.trim)
	}
	p.mu.Unlock()
}

// trim releases the buffers that were not needed since the last time.
func (p *pool) trim() {
	p.mu.Lock()
	idle := slices.Clone(p.free[:p.low])
	p.free = slices.Delete(p.free, 0, p.low)
	p.low = len(p.free)
	p.armed = len(p.free) > 0
	if p.armed {
		time.AfterFunc(trimEvery, p.trim)
	}
	p.mu.Unlock()
	for _, b := range idle { // outside the lock: with many buffers it takes tens of milliseconds
		// It cannot fail for a mapping of our own; if it does, the memory is lost but nothing else.
		_ = unix.Munmap(b)
	}
}
