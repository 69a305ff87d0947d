// SPDX-License-Identifier: Apache-2.0

// Package read takes the pcapng of a daemon apart: into whole blocks for a file, or into a line for each frame.
package read

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Types of blocks of pcapng (draft-ietf-opsawg-pcapng).
const (
	typeSection = 0x0a0d0d0a
	typePacket  = 6

	blockHead = 8       // type and length
	blockMin  = 12      // and the length again
	blockMax  = 1 << 20 // the daemon's longest is a frame of 68 KiB
)

// bufferSize is how much is read at once, in bytes. It holds the longest block.
const bufferSize = 2 * blockMax

// errFormat is that what is read is no pcapng, or not of the daemon's kind.
var errFormat = errors.New("the daemon sends something that is no pcapng")

// Counts are what has been written.
type Counts struct {
	Frames uint64 // whole
	Bytes  int64  // of whole blocks
}

// A WriteError is one of the writer of Copy.
type WriteError struct{ Err error }

func (e *WriteError) Error() string { return e.Err.Error() }
func (e *WriteError) Unwrap() error { return e.Err }

// Copy writes what r has to w, whole blocks only, as soon as they are there. When w fails, which is a *WriteError, it may have a part
// of one behind the Counts' Bytes. When r ends within a block, it is io.ErrUnexpectedEOF.
func Copy(w io.Writer, r io.Reader) (c Counts, err error) {
	buf := make([]byte, bufferSize)
	held := 0
	for {
		n, rerr := r.Read(buf[held:])
		held += n
		whole, ferr := scan(buf[:held], c.Bytes == 0)
		if whole > 0 {
			done, werr := w.Write(buf[:whole])
			if werr == nil && done < whole {
				werr = io.ErrShortWrite
			}
			c.add(buf[:min(done, whole)])
			if werr != nil {
				return c, &WriteError{werr}
			}
			held = copy(buf, buf[whole:held])
		}
		switch {
		case ferr != nil:
			return c, ferr
		case errors.Is(rerr, io.EOF) && held == 0 && c.Bytes > 0:
			return c, nil
		case errors.Is(rerr, io.EOF):
			return c, io.ErrUnexpectedEOF
		case rerr != nil:
			return c, rerr
		}
	}
}

// scan returns how long the whole blocks at the head of b are. The first one of all begins a section.
func scan(b []byte, first bool) (whole int, err error) {
	for {
		n, ok, err := block(b[whole:], first && whole == 0)
		if err != nil || !ok {
			return whole, err
		}
		whole += n
	}
}

// block is the length of the block at the head of b; ok is whether it is all there.
func block(b []byte, first bool) (n int, ok bool, err error) {
	if len(b) < blockHead {
		return 0, false, nil
	}
	typ, length := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	switch {
	case first && typ != typeSection:
		return 0, false, fmt.Errorf("%w: it begins with %#x", errFormat, typ)
	case length < blockMin || length > blockMax || length%4 != 0:
		return 0, false, fmt.Errorf("%w: a block of %d bytes", errFormat, length)
	case int(length) > len(b):
		return 0, false, nil
	case binary.LittleEndian.Uint32(b[length-4:]) != length:
		return 0, false, fmt.Errorf("%w: a block with two lengths", errFormat)
	}
	return int(length), true, nil
}

// add counts the whole blocks of b, which scan has seen.
func (c *Counts) add(b []byte) {
	for {
		n, ok, err := block(b, false)
		if err != nil || !ok {
			return
		}
		if binary.LittleEndian.Uint32(b) == typePacket {
			c.Frames++
		}
		c.Bytes += int64(n)
		b = b[n:]
	}
}
