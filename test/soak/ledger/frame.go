// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"time"
)

// A frame of the ledger:
//
//	 0  destination, source, EtherType 0x88b5
//	14  "soak"
//	18  run             uint32
//	22  connection      uint32, that sent it
//	26  to              uint32, the connection that it is for
//	30  sequence        uint64, of all frames of the connection
//	38  flow            uint64, of the connection's frames for this one
//	46  sent            int64, nanoseconds since the run began
//	54  length          uint32, of the whole frame
//	58  filler, which depends on the sequence
//	-4  CRC-32C of everything before
const (
	etherType = 0x88b5
	magic     = 0x736f616b // "soak"
	headerLen = 58

	// MinLen is the shortest frame that Compose makes, in bytes.
	MinLen = headerLen + 4
)

// Numbers of connections that are none: of frames to the broadcast address, and to the owner of an address.
const (
	All = ^uint32(0)
	Any = All - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errAlien is returned for a frame that is not the ledger's.
var errAlien = errors.New("not a frame of the ledger")

// A header is what a frame tells.
type header struct {
	conn, to  uint32
	seq, flow uint64
	sent      time.Duration
}

// A Target is whom a frame is for.
type Target struct {
	MAC net.HardwareAddr
	To  uint32 // connection, All or Any
}

// Target is c as one.
func (c *Conn) Target() Target { return Target{c.MAC, c.ID} }

// Broadcast is for all.
var Broadcast = Target{net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, All}

// Compose appends a frame of n bytes from c to b; n below MinLen is MinLen. One goroutine at a time composes frames of a
// connection, and sends them in that order.
func (c *Conn) Compose(b []byte, to Target, n int) []byte {
	n = max(n, MinLen)
	c.seq++
	c.next[to.To]++
	start := len(b)
	b = append(b, to.MAC...)
	b = append(b, c.MAC...)
	b = binary.BigEndian.AppendUint16(b, etherType)
	b = binary.BigEndian.AppendUint32(b, magic)
	b = binary.BigEndian.AppendUint32(b, c.l.opts.Run)
	b = binary.BigEndian.AppendUint32(b, c.ID)
	b = binary.BigEndian.AppendUint32(b, to.To)
	b = binary.BigEndian.AppendUint64(b, c.seq)
	b = binary.BigEndian.AppendUint64(b, c.next[to.To])
	b = binary.BigEndian.AppendUint64(b, uint64(c.l.opts.Now()))
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	seed := c.seq ^ uint64(c.ID)<<32
	for rest := n - MinLen; rest > 0; rest -= 8 { // a pattern that does not repeat within a frame
		seed = seed*6364136223846793005 + 1442695040888963407
		var w [8]byte
		binary.BigEndian.PutUint64(w[:], seed)
		b = append(b, w[:min(rest, 8)]...)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// parse takes f apart. errAlien says that it is not the ledger's; any other error that it once was.
func (l *Ledger) parse(f []byte) (header, Kind, error) {
	if len(f) < 18 || binary.BigEndian.Uint16(f[12:]) != etherType || binary.BigEndian.Uint32(f[14:]) != magic {
		return header{}, Corrupted, errAlien
	}
	if len(f) < MinLen {
		return header{}, Cut, fmt.Errorf("%d bytes are left of a frame", len(f))
	}
	if n := binary.BigEndian.Uint32(f[54:]); int(n) != len(f) {
		return header{}, Cut, fmt.Errorf("%d bytes came of a frame of %d", len(f), n)
	}
	if sum := crc32.Checksum(f[:len(f)-4], castagnoli); sum != binary.BigEndian.Uint32(f[len(f)-4:]) {
		return header{}, Corrupted, fmt.Errorf("the checksum of a frame of %d bytes is wrong", len(f))
	}
	if run := binary.BigEndian.Uint32(f[18:]); run != l.opts.Run {
		return header{}, Corrupted, fmt.Errorf("frame of another run, %d", run)
	}
	return header{
		conn: binary.BigEndian.Uint32(f[22:]), to: binary.BigEndian.Uint32(f[26:]),
		seq: binary.BigEndian.Uint64(f[30:]), flow: binary.BigEndian.Uint64(f[38:]),
		sent: time.Duration(binary.BigEndian.Uint64(f[46:])),
	}, "", nil
}
