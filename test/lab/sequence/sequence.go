// SPDX-License-Identifier: Apache-2.0

// Package sequence numbers the frames of the end-to-end tests and tells from those that arrive how long nothing came and
// how many were lost. The guests' helper program and the tests on the host share it.
package sequence

import (
	"bytes"
	"encoding/binary"
	"time"
)

// EtherType is the first of the two that IEEE 802 leaves to local experiments.
const EtherType = 0x88b5

// MinSize is the length of the shortest numbered frame in bytes.
const MinSize = 38

// fill is what the rest of a frame consists of. Taken for the length in front of a frame it is far above what any client may
// send, so that a stream that begins within a frame is not taken for one that begins with a frame.
const fill = 0xa5

// filling is longer than the rest of any frame.
var filling = bytes.Repeat([]byte{fill}, 128<<10)

// Offsets of the fields of a numbered frame:
//
//	destination (6)  source (6)  type 0x88b5 (2)  number, from 1 (8)  sent, in ns of the sender's clock (8)  run (8)  fill
//
// All are big-endian. A run is one start of a sender, which begins with number 1.
const (
	offType   = 12
	offNumber = 14
	offSent   = 22
	offRun    = 30
)

// A Frame is what a numbered frame says.
type Frame struct {
	Number uint64
	// Sent is the time on the sender's clock, which has an arbitrary zero.
	Sent time.Duration
	Run  uint64
}

// New returns a frame of size bytes, at least MinSize, for Put.
func New(dst, src []byte, size int) []byte {
	b := make([]byte, max(size, MinSize))
	copy(b, dst)
	copy(b[6:], src)
	binary.BigEndian.PutUint16(b[offType:], EtherType)
	copy(b[MinSize:], filling)
	return b
}

// Put writes f into b, a frame from New.
func Put(b []byte, f Frame) {
	binary.BigEndian.PutUint64(b[offNumber:], f.Number)
	binary.BigEndian.PutUint64(b[offSent:], uint64(f.Sent))
	binary.BigEndian.PutUint64(b[offRun:], f.Run)
}

// Parse reads the frame b. It is not ok for frames of others and for those without a number. intact is false when the rest
// of the frame is not what New has put there.
func Parse(b []byte) (f Frame, ok, intact bool) {
	if len(b) < MinSize || binary.BigEndian.Uint16(b[offType:]) != EtherType {
		return Frame{}, false, true
	}
	f = Frame{
		Number: binary.BigEndian.Uint64(b[offNumber:]),
		Sent:   time.Duration(binary.BigEndian.Uint64(b[offSent:])),
		Run:    binary.BigEndian.Uint64(b[offRun:]),
	}
	return f, f.Number > 0, bytes.Equal(b[MinSize:], filling[:min(len(b), len(filling))-MinSize])
}
