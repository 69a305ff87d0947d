// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// errStream is returned for a stream that a client could not go on with.
var errStream = errors.New("the daemon must never send this")

// readStream takes a stream apart. io.EOF is its end at the boundary of a frame.
func (x *line) readStream(receive func(f []byte)) error {
	r := bufio.NewReaderSize(x.conn, 64<<10)
	f := make([]byte, maxStreamToClient)
	for {
		var head [4]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return fmt.Errorf("the stream ends within a prefix: %w", errStream)
			}
			return err
		}
		n := binary.BigEndian.Uint32(head[:])
		if n < 14 || n > maxStreamToClient {
			return fmt.Errorf("frame of %d bytes: %w", n, errStream)
		}
		if _, err := io.ReadFull(r, f[:n]); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
				return fmt.Errorf("the stream ends within a frame of %d bytes: %w", n, errStream)
			}
			return err
		}
		receive(f[:n])
	}
}
