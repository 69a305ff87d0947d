// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"
)

// A sieve keeps from a client what it is not to get while it moves from the anchor to an own interface, when for a moment
// it has both.
type sieve struct {
	own *seenMACs // the client's addresses
	// echo is set once the client may send by both: what it sends by one of the two comes back by the other.
	echo bool
	// doubles are the frames that the client has got by the anchor since it has begun to have both, but for those to its own
	// addresses alone, which come by one of them.
	doubles *doubles
	second  bool // this is the line by which they come once more
}

// keep reports whether the client is to get the frame f.
func (s *sieve) keep(f []byte) bool {
	switch {
	case s.echo && s.own.has(f):
		return false
	case s.own.contains(binary.BigEndian.Uint64(f) >> 16):
		return true
	case s.second:
		return !s.doubles.take(f)
	}
	s.doubles.add(f)
	return true
}

// sieveTime is how long after the move the second line has a sieve: macOS may bring to one of the two what it has brought to the
// other a while ago.
const sieveTime = time.Second

// maxDoubles bounds how many frames are remembered. A move takes milliseconds.
const maxDoubles = 4096

// doubles counts frames. Two that are the same are two: a guest may ask the same twice.
type doubles struct {
	seed maphash.Seed

	mu   sync.Mutex
	seen map[uint64]int
}

func newDoubles() *doubles { return &doubles{seed: maphash.MakeSeed(), seen: map[uint64]int{}} }

// add notes that f has been delivered.
func (d *doubles) add(f []byte) {
	h := maphash.Bytes(d.seed, f)
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.seen[h]; known || len(d.seen) < maxDoubles {
		d.seen[h]++
	}
}

// take reports whether f has been delivered, and that once less from now on.
func (d *doubles) take(f []byte) bool {
	h := maphash.Bytes(d.seed, f)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen[h] == 0 {
		return false
	}
	d.seen[h]--
	return true
}
