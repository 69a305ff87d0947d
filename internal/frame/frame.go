// SPDX-License-Identifier: Apache-2.0

// Package frame is the wire format of socket_vmnet's stream socket and the batch of frames that moves through the daemon.
//
// The wire form, used everywhere inside as well so that a stream client's frames need no rewriting:
//
//	 0      1      2      3      4 ...                       4+length
//	+------+------+------+------+---------------------------+------+------+ ...
//	| length, uint32 big-endian | Ethernet frame (no FCS)   | next length
//	+------+------+------+------+---------------------------+------+------+ ...
//
// There is no handshake. A sender may put the prefix and the frame into separate writes and a reader may see a prefix cut
// at any byte.
package frame

import (
	"encoding/binary"
	"errors"
)

const (
	// PrefixLen is the size of the length prefix in bytes.
	PrefixLen = 4

	// MinLen is the shortest frame that is carried, an Ethernet header, in bytes. QEMU stops reading its socket for ever
	// after a frame of length 0, so shorter ones are dropped on every input.
	MinLen = 14

	// MaxLen is the longest frame that is carried, in bytes: QEMU's NET_BUFSIZE (4096 + 65536). QEMU ends the connection
	// on a longer one, and so does this daemon.
	MaxLen = 69632

	// MaxStreamLen is the longest frame that is ever sent to a stream client, in bytes. Lima's VZ driver copies through a
	// 32 KiB buffer and loses its network for good on a longer one.
	MaxStreamLen = 32768

	// MaxEthernetLen is the longest frame of a link with an MTU of 1500, in bytes.
	MaxEthernetLen = 1514
)

// ErrTooLong reports a length prefix above MaxLen. The position in the stream is lost with it: the caller closes that
// client and nothing else.
var ErrTooLong = errors.New("frame length above 69632 bytes")

// A Batch is a run of consecutive whole frames in wire form in one contiguous buffer. The buffer is borrowed: a Batch is
// valid only as long as the call that handed it over. The zero Batch is empty.
type Batch struct {
	buf []byte
	n   int
}

// NewBatch wraps buf, which must hold exactly n whole frames in wire form, each MinLen to MaxLen bytes long.
func NewBatch(buf []byte, n int) Batch { return Batch{buf: buf, n: n} }

// Len is the number of frames.
func (b Batch) Len() int { return b.n }

// Bytes is the wire form of all frames, prefixes included.
func (b Batch) Bytes() []byte { return b.buf }

// DataLen is the sum of the frames' lengths in bytes, prefixes not counted.
func (b Batch) DataLen() int { return len(b.buf) - b.n*PrefixLen }

// Iter walks the frames of b in order without allocating:
//
//	it := b.Iter()
//	for it.Next() {
//		use(it.Frame())
//	}
//
// A variable that is declared in the for clause would be copied at each turn, which costs more than the walk itself.
func (b Batch) Iter() Iter { return Iter{buf: b.buf} }

// An Iter is a position in a Batch. Its zero value is at the end.
type Iter struct {
	buf        []byte
	start, end int // of the current frame with its prefix
}

// Next moves to the next frame and reports whether there is one.
func (it *Iter) Next() bool {
	it.start = it.end
	if len(it.buf)-it.start < PrefixLen {
		return false
	}
	n := binary.BigEndian.Uint32(it.buf[it.start:])
	if uint64(n) > uint64(len(it.buf)-it.start-PrefixLen) { // not what NewBatch asks for
		return false
	}
	it.end += PrefixLen + int(n)
	return true
}

// Frame is the current frame without its prefix, valid as long as the Batch.
func (it *Iter) Frame() []byte { return it.buf[it.start+PrefixLen : it.end : it.end] }

// Offset is where the current frame's prefix begins in the Batch's bytes.
func (it *Iter) Offset() int { return it.start }

// End is the offset just behind the current frame.
func (it *Iter) End() int { return it.end }

// After is b without its first n frames.
func (b Batch) After(n int) Batch {
	if n >= b.n {
		return Batch{}
	}
	it := b.Iter()
	for range n {
		it.Next()
	}
	return Batch{buf: b.buf[it.End():], n: b.n - n}
}

// Head is the first n frames of b, all of them if it has fewer.
func (b Batch) Head(n int) Batch {
	if n >= b.n {
		return b
	}
	it := b.Iter()
	for range n {
		it.Next()
	}
	return Batch{buf: b.buf[:it.End():it.End()], n: n}
}

// Within is the longest head of b whose wire form has at most room bytes.
func (b Batch) Within(room int) Batch {
	if len(b.buf) <= room {
		return b
	}
	n, end := 0, 0
	it := b.Iter()
	for it.Next() && it.End() <= room {
		n, end = n+1, it.End()
	}
	return Batch{buf: b.buf[:end:end], n: n}
}

// Runs calls deliver with the longest runs of consecutive frames of b that keep wants, in order.
func (b Batch) Runs(keep func(f []byte) bool, deliver func(Batch)) {
	start, frames := 0, 0
	it := b.Iter()
	for it.Next() {
		if keep(it.Frame()) {
			frames++
			continue
		}
		if frames > 0 {
			deliver(Batch{buf: b.buf[start:it.Offset():it.Offset()], n: frames})
		}
		start, frames = it.End(), 0
	}
	if frames > 0 {
		deliver(Batch{buf: b.buf[start:len(b.buf):len(b.buf)], n: frames})
	}
}

// Append adds f in wire form to dst and returns the extended slice. It is for frames that do not come from a stream; f
// must be MinLen to MaxLen bytes long.
func Append(dst, f []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(f)))
	return append(dst, f...)
}

// PutPrefix writes the prefix of a frame of n bytes to the first PrefixLen bytes of b.
func PutPrefix(b []byte, n int) { binary.BigEndian.PutUint32(b, uint32(n)) }

// Scan takes the whole frames at the head of buf, which is what has been read from a stream so far. It returns
//
//   - b: the longest run of consecutive frames of legal length. It points into buf.
//   - used: how many bytes of buf are done with. They hold b and the runts.
//   - runts: how many frames shorter than MinLen were skipped in front of b.
//
// A runt ends the run, so callers call Scan on the rest until used is 0; what then is left is the begin of a frame that has
// not fully arrived. ErrTooLong is returned when such a frame announces more than MaxLen bytes, after everything in front
// of it has been handed out.
func Scan(buf []byte) (b Batch, used, runts int, err error) {
	for len(buf)-used >= PrefixLen {
		n := binary.BigEndian.Uint32(buf[used:])
		if n >= MinLen || int(n) > len(buf)-used-PrefixLen {
			break
		}
		used += PrefixLen + int(n)
		runts++
	}
	start := used
	for len(buf)-used >= PrefixLen {
		n := binary.BigEndian.Uint32(buf[used:])
		if n > MaxLen {
			if used == 0 {
				err = ErrTooLong
			}
			break
		}
		if n < MinLen || int(n) > len(buf)-used-PrefixLen {
			break
		}
		used += PrefixLen + int(n)
		b.n++
	}
	b.buf = buf[start:used:used]
	return b, used, runts, err
}

// A Sink takes frames without ever blocking on its receiver: it accepts whole frames or drops and counts them.
//
// Deliver borrows b until it returns, and b holds only frames of at most MaxFrame bytes. Several goroutines may call it at
// once. A Sink never closes a port: a receiver that died is reported by the link that owns the Sink.
type Sink interface {
	Deliver(b Batch)
	// MaxFrame is the longest frame the receiver takes, in bytes, without the prefix. It never changes.
	MaxFrame() int
}

// A Bounded Sink tells that its receiver is behind: what comes is queued for it, and soon dropped. One that takes nothing at all is not
// behind, but gone for now. Full may be called at any time.
type Bounded interface{ Full() bool }
