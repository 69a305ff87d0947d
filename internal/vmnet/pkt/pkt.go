// SPDX-License-Identifier: Apache-2.0

// Package pkt lays out the packet descriptors of vmnet_read and vmnet_write in memory that the garbage collector does not
// know, so that C may hold their addresses.
package pkt

import (
	"unsafe"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// A Reader is the memory of one interface's vmnet_read: descriptors, and one slot of exactly frame.PrefixLen + maxPacket
// bytes for each, side by side, so that full-sized packets are a batch in wire form as they arrive.
type Reader struct{}

// NewReader makes a Reader of n slots for packets of up to maxPacket bytes.
func NewReader(n, maxPacket int) (*Reader, error) { return nil, nil }

// Reset readies all slots for the next read: sizes, lengths, flags and the count.
func (r *Reader) Reset() {}

// Args are the arguments of vmnet_read: the first descriptor, and the count.
func (r *Reader) Args() (desc unsafe.Pointer, count *int32) { return nil, nil }

// Batch is what a successful read brought, in wire form; short packets are moved up until all are contiguous. odd counts
// packets that no frame can be (shorter than frame.MinLen or longer than the slot), which are left out. b is valid until
// the next Reset.
func (r *Reader) Batch() (b frame.Batch, odd int) { return frame.Batch{}, 0 }

// Cap is the number of slots.
func (r *Reader) Cap() int { return 0 }

// Free gives the memory back. It is idempotent.
func (r *Reader) Free() error { return nil }

// A Writer is the descriptors of one vmnet_write. The packets stay where they are: in the client's read buffer.
type Writer struct{}

// NewWriter makes a Writer of n descriptors.
func NewWriter(n int) (*Writer, error) { return nil, nil }

// Begin empties w and makes b the batch whose frames are added. b stays borrowed until End.
func (w *Writer) Begin(b frame.Batch) {}

// Add appends the frame from it, which walks the batch given to Begin. It reports false when all descriptors are in use.
func (w *Writer) Add(f []byte) bool { return false }

// Len is how many packets w holds, and Bytes the sum of their lengths.
func (w *Writer) Len() int { return 0 }

// Bytes is the sum of the lengths of the packets in bytes.
func (w *Writer) Bytes() int { return 0 }

// Truncate drops all packets, to fill w again from the same batch.
func (w *Writer) Truncate() {}

// End lets go of the batch.
func (w *Writer) End() {}

// Args are the arguments of vmnet_write.
func (w *Writer) Args() (desc unsafe.Pointer, count *int32) { return nil, nil }

// Free gives the memory back. It is idempotent.
func (w *Writer) Free() error { return nil }
