// SPDX-License-Identifier: Apache-2.0

package pkt

import (
	"unsafe"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// A Writer is the descriptors of one vmnet_write. The packets stay where they are: in the client's read buffer. One
// goroutine at a time uses it.
//
// The descriptors hold plain addresses, which the garbage collector neither sees nor changes. They stay right from Begin to
// End because the Writer holds the batch for that long: memory that Go has allocated does not move, is not freed while
// something refers to it, and what is stored behind a pointer is never on a goroutine's stack, the one place that does
// move: the compiler puts such a buffer on the heap. A buffer in mapped memory is its owner's to keep.
type Writer struct {
	arena

	batch frame.Batch
	n     int // packets
	sum   int // bytes
}

// NewWriter makes a Writer of n descriptors, at least 1.
//
//go:noinline
func NewWriter(n int) *Writer { return &Writer{arena: newArena(n, 0)} } // not inlined, so that it is never on a stack

// Begin empties w and makes b the batch whose frames are added. b stays borrowed until End.
func (w *Writer) Begin(b frame.Batch) {
	w.batch = b
	w.Truncate()
}

// Add appends the frame from it, which walks the batch given to Begin. It reports false when all descriptors are in use. A
// frame from elsewhere is a fault of the program, for which it panics: nothing would keep that memory alive.
func (w *Writer) Add(f []byte) bool {
	if w.n == len(w.desc) {
		return false
	}
	buf := w.batch.Bytes()
	base := uintptr(unsafe.Pointer(unsafe.SliceData(f)))
	off := base - uintptr(unsafe.Pointer(unsafe.SliceData(buf)))
	if off > uintptr(len(buf)) || uintptr(len(f)) > uintptr(len(buf))-off {
		panic("pkt: Writer.Add: frame is not in the batch given to Begin")
	}
	d := &w.desc[w.n]
	d.size, d.iovcnt, d.flags = uint64(len(f)), 1, 0
	w.iov[w.n] = iovec{base: uint64(base), len: uint64(len(f))}
	w.n++
	w.sum += len(f)
	return true
}

// Len is how many packets w holds.
func (w *Writer) Len() int { return w.n }

// Bytes is the sum of the lengths of the packets in bytes.
func (w *Writer) Bytes() int { return w.sum }

// Truncate drops all packets, to fill w again from the same batch.
func (w *Writer) Truncate() { w.n, w.sum = 0, 0 }

// End empties w and lets go of the batch. The addresses stay in the descriptors, unused.
func (w *Writer) End() {
	w.batch = frame.Batch{}
	w.Truncate()
}

// Args are the arguments of vmnet_write: the first descriptor, and the count, which is set anew each time.
func (w *Writer) Args() (desc unsafe.Pointer, count *int32) {
	*w.count = int32(w.n)
	return unsafe.Pointer(&w.desc[0]), w.count
}

// Call is the argument list of vmnet_write on ref, valid until the next Call. It allocates nothing.
func (w *Writer) Call(ref uintptr) []uintptr {
	*w.count = int32(w.n)
	return w.call(ref)
}
