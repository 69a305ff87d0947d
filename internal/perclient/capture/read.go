// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bufio"
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

// Copy writes what r has, a daemon's pcapng, to w, whole blocks only, as soon as they are there. When w fails, which is a *WriteError,
// it may have a part of one behind the Counts' Bytes. When r ends within a block, it is io.ErrUnexpectedEOF.
func Copy(w io.Writer, r io.Reader) (c Counts, err error) {
	br := bufio.NewReaderSize(r, blockMax)
	for {
		b, err := block(br, c.Bytes == 0)
		switch {
		case errors.Is(err, io.EOF) && len(b) == 0 && c.Bytes > 0:
			return c, nil
		case errors.Is(err, io.EOF):
			return c, io.ErrUnexpectedEOF
		case err != nil:
			return c, err
		}
		if _, err = w.Write(b); err != nil {
			return c, &WriteError{err}
		}
		if binary.LittleEndian.Uint32(b) == typePacket {
			c.Frames++
		}
		c.Bytes += int64(len(b))
		_, _ = br.Discard(len(b))
	}
}

// block is the next block of r, which begins a section if it is the first one. If r ends it is what is left of one.
func block(r *bufio.Reader, first bool) ([]byte, error) {
	b, err := r.Peek(blockHead)
	if err != nil {
		return b, err
	}
	typ, length := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	switch {
	case first && typ != typeSection:
		return b, fmt.Errorf("%w: it begins with %#x", errFormat, typ)
	case length < blockMin || length > blockMax || length%4 != 0:
		return b, fmt.Errorf("%w: a block of %d bytes", errFormat, length)
	}
	b, err = r.Peek(int(length))
	if err == nil && binary.LittleEndian.Uint32(b[length-4:]) != length {
		err = fmt.Errorf("%w: a block with two lengths", errFormat)
	}
	return b, err
}
