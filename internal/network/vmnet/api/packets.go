// SPDX-License-Identifier: Apache-2.0

package api

import (
	"unsafe"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// headLen keeps the count, which C writes, on a cache line of its own.
const headLen = 64

// A vmpktdesc is struct vmpktdesc of vmnet.h on a 64-bit system.
type vmpktdesc struct {
	size   uint64 // vm_pkt_size, bytes: the room before a read, the packet after it
	iov    uint64 // vm_pkt_iov, address
	iovcnt uint32 // vm_pkt_iovcnt: vmnet_write takes only 1
	flags  uint32 // vm_flags: 0
}

// An iovec is struct iovec on a 64-bit system.
type iovec struct {
	base uint64 // iov_base, address
	len  uint64 // iov_len, bytes
}

// What C lays out; first fields are at 0 in any case. A difference is a division by zero while compiling.
const (
	_ = 1 / (1 - (unsafe.Sizeof(vmpktdesc{}) ^ 24))
	_ = 1 / (1 - (unsafe.Offsetof(vmpktdesc{}.iov) ^ 8))
	_ = 1 / (1 - (unsafe.Offsetof(vmpktdesc{}.iovcnt) ^ 16))
	_ = 1 / (1 - (unsafe.Offsetof(vmpktdesc{}.flags) ^ 20))
	_ = 1 / (1 - (unsafe.Sizeof(iovec{}) ^ 16))
	_ = 1 / (1 - (unsafe.Offsetof(iovec{}.len) ^ 8))
)

// An arena is the packet descriptors of vmnet_read or vmnet_write. One piece of memory holds, for n packets,
//
//	+0          int32 count             in: descriptors offered, out: packets
//	+64         struct vmpktdesc [n]    24 bytes each
//	+64+24n     struct iovec     [n]    16 bytes each, one per descriptor and bound to it for good
//	+64+40n     slots            [n]    of a Reader only: 4 + maxPacket bytes each, without gaps
//
// A slot begins with room for the length prefix; the iovec points behind it. A full-sized packet thus ends where the next
// one's prefix begins, and a run of them is in wire form once the prefixes are written.
//
// The memory is of Go's heap, which does not move, and C has its address during a call only; for that long the caller keeps the
// Reader or the Writer alive.
type arena struct {
	count *int32
	desc  []vmpktdesc
	iov   []iovec
	slots []byte
	args  [3]uintptr // of the call; here, so that it takes no allocation
}

// newArena lays out n descriptors with n slots of slot bytes each.
func newArena(n, slot int) (a arena) {
	descLen, iovLen := n*int(unsafe.Sizeof(vmpktdesc{})), n*int(unsafe.Sizeof(iovec{}))
	mem := make([]byte, headLen+descLen+iovLen+n*slot)
	a.count = (*int32)(unsafe.Pointer(&mem[0]))
	a.desc = unsafe.Slice((*vmpktdesc)(unsafe.Pointer(&mem[headLen])), n)
	a.iov = unsafe.Slice((*iovec)(unsafe.Pointer(&mem[headLen+descLen])), n)
	a.slots = mem[headLen+descLen+iovLen:]
	for i := range a.desc {
		a.desc[i].iov = address(&a.iov[i])
		a.desc[i].iovcnt = 1
	}
	return a
}

// call is the argument list (ref, descriptors, count).
func (a *arena) call(ref uintptr) []uintptr {
	a.args = [3]uintptr{ref, uintptr(unsafe.Pointer(&a.desc[0])), uintptr(unsafe.Pointer(a.count))}
	return a.args[:]
}

func address[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

// A Reader is the memory of one interface's vmnet_read: descriptors, and one slot of exactly frame.PrefixLen + maxPacket
// bytes for each, side by side, so that full-sized packets are a batch in wire form as they arrive. One goroutine at a time
// uses it: Reset, the call, Batch if it succeeded, and again.
type Reader struct {
	arena

	slot  int // bytes
	dirty int // slots from the first on that are not known to be ready
}

// NewReader makes a Reader of n slots, at least 1, for packets of up to maxPacket bytes, frame.MinLen to frame.MaxLen.
func NewReader(n, maxPacket int) *Reader {
	slot := frame.PrefixLen + maxPacket
	r := &Reader{arena: newArena(n, slot), slot: slot, dirty: n}
	for i := range r.iov {
		r.iov[i].base = address(&r.slots[i*slot+frame.PrefixLen])
	}
	r.Reset()
	return r
}

// Reset readies all slots for the next read: sizes, lengths, flags and the count. It touches those that the last read used;
// all of them when Batch was not called since, as after a read that failed; none when no read came since the last Reset.
func (r *Reader) Reset() {
	room := uint64(r.slot - frame.PrefixLen)
	for i := range r.dirty {
		d := &r.desc[i]
		d.size, d.iovcnt, d.flags = room, 1, 0
		r.iov[i].len = room
	}
	*r.count = int32(len(r.desc))
	r.dirty = 0
}

// Call is the argument list of vmnet_read on ref, valid until the next Call. It allocates nothing.
func (r *Reader) Call(ref uintptr) []uintptr {
	r.dirty = len(r.desc) // until Batch tells how many of them
	return r.call(ref)
}

// Batch is what a successful read brought, in wire form; short packets are moved up until all are contiguous. odd counts
// packets that no frame can be (shorter than frame.MinLen or longer than the slot), which are left out. b is valid until
// the next Reset. It is called once after a read.
func (r *Reader) Batch() (b frame.Batch, odd int) {
	n := int(*r.count)
	if n < 0 || n > len(r.desc) { // no framework does; there is no telling what it touched
		n = min(max(n, 0), len(r.desc))
	} else {
		// One more than were read, as the framework may ready a descriptor before it finds that there is no packet for it.
		r.dirty = min(n+1, len(r.desc))
	}
	room := uint64(r.slot - frame.PrefixLen)
	end := 0 // of what is in wire form
	for i := range n {
		size := r.desc[i].size
		if size < frame.MinLen || size > room {
			odd++
			continue
		}
		at, whole := i*r.slot, frame.PrefixLen+int(size)
		frame.PutPrefix(r.slots[at:], int(size))
		if at != end {
			copy(r.slots[end:], r.slots[at:at+whole]) // towards the front; they may overlap
		}
		end += whole
	}
	return frame.NewBatch(r.slots[:end:end], n-odd), odd
}

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
		panic("api: Writer.Add: frame is not in the batch given to Begin")
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

// Call is the argument list of vmnet_write on ref, valid until the next Call. It allocates nothing.
func (w *Writer) Call(ref uintptr) []uintptr {
	*w.count = int32(w.n)
	return w.call(ref)
}
