// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// How a flow gets from vmnet's way to the short one without its frames changing places.
//
// A frame that takes the short way is with its receiver when Send returns. One that took vmnet's way may be under way for a
// while, so a frame on the short way could overtake it; the other way round nothing can happen. A client's frames to an
// address take the short way from the moment when none of them can be on vmnet's way any more:
//
//   - there never was one, or the last one was longAgo: the common case, for guests speak, be it by ARP or DHCP, before
//     anybody sends to them; or
//   - a marker has arrived: a frame that was written behind the last one, to the same address, by the same interface. vmnet
//     keeps the order of what goes from one interface to another, on which the flow relies without local switching as
//     well; the reader delivers in order, and reports the marker when all that came before it is delivered.
//
// From the writing of the marker until it arrives the flow's frames are held; the marker's arrival delivers them. One that does
// not arrive within transit, because vmnet has lost it or takes nothing from client to client, is taken for arrived, after
// all that waits to be read has been read. That vmnet keeps no frame longer than transit is the one assumption made here;
// how late the daemon itself comes to read it does not matter. A frame to an address that is not known takes vmnet's way,
// also if the address was known before; what is held for it then is dropped.
//
// All this is about one client's frames to one address. Between those to an address and to a group there is no order, as
// in any bridge by IEEE 802.1Q (8.6.6).

// Limits of crossings.
const (
	// transit is how long a frame may be under way in vmnet.
	transit = 500 * time.Millisecond
	// longAgo is far beyond that and beyond how late a reader may be.
	longAgo = 30 * time.Second
	// maxCrossings is how many flows of one client cross at a time. Further ones stay where they are.
	maxCrossings = 4
	// maxHeld is how much of a flow is held, in bytes of wire form: a TCP window of ordinary size.
	maxHeld = 512 << 10
	// markAgain is after what time another marker is written, for the first one may be lost.
	markAgain = 5 * time.Millisecond
)

// A marker tells one crossing from all others. It begins with the network's mark, by which one that comes late is known; nobody can
// guess either.
type marker [2 * markLen]byte

const markLen = 8

// Marker frames have the other one of the two types for experiments of IEEE 802, an address that the client has, and
// nothing in them that anybody would answer.
const (
	markerType = 0x88b6
	markerLen  = 60
)

// A crossing is a flow on its way over. The sending client's goroutine makes and fills it; the receiver's reader, or the
// clock, ends it.
type crossing struct {
	lo     *local
	from   *switcher
	to     *place
	line   *line // by which the marker must arrive; nil: it proves nothing
	moved  int64 // of the sender's, when it began
	id     marker
	clock  *time.Timer
	marked time.Duration // when the last marker was written; used by the sender

	// mu is held while held frames are delivered, so that the next frame of the flow cannot overtake them. Only the sender
	// ever waits for that.
	mu      sync.Mutex
	over    bool
	held    []byte
	frames  int
	longest int // bytes
}

// newCrossing begins a crossing.
func (lo *local) newCrossing(from *switcher, to *place, l *line) *crossing {
	c := &crossing{lo: lo, from: from, to: to, line: l, moved: from.moved.Load()}
	copy(c.id[:], lo.mark[:])
	_, _ = rand.Read(c.id[markLen:])
	c.mu.Lock() // until it is whole
	defer c.mu.Unlock()
	lo.mu.Lock()
	lo.markers[c.id] = c
	lo.mu.Unlock()
	c.clock = time.AfterFunc(transit, c.expire)
	return c
}

// mark is a marker frame from the address src, in buf.
func (c *crossing) mark(buf []byte, src uint64) frame.Batch {
	f := buf[frame.PrefixLen : frame.PrefixLen+markerLen]
	clear(f)
	frame.PutPrefix(buf, markerLen)
	binary.BigEndian.PutUint64(f[6:], src<<16)
	binary.BigEndian.PutUint64(f, c.to.mac<<16|src>>32)
	binary.BigEndian.PutUint16(f[12:], markerType)
	copy(f[14:], c.id[:])
	return frame.NewBatch(buf[:frame.PrefixLen+markerLen], 1)
}

// hold keeps b, or what there is room for. It reports false when the crossing is over and b may go its way.
func (c *crossing) hold(b frame.Batch, longest int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	it := b.Iter()
	for it.Next() {
		if f := b.Bytes()[it.Offset():it.End()]; len(c.held)+len(f) <= maxHeld {
			c.held = append(c.held, f...)
			c.frames++
		} else {
			c.from.port.counts.exhausted.Add(1)
		}
	}
	c.longest = max(c.longest, longest)
	return true
}

// expire ends the crossing when no marker has come for so long. What has arrived and waits to be read is delivered first.
func (c *crossing) expire() {
	if s := c.to.port.Load(); s != nil {
		s.port.settle()
	}
	c.finish()
}

// finish delivers what is held and ends the crossing: from now on the flow takes the short way. Where the address is not
// known any more, what is held is dropped.
func (c *crossing) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.to.port.Load()
	switch {
	case c.over || c.frames == 0:
	case s == nil:
		c.from.port.counts.down.Add(uint64(c.frames))
	default:
		c.from.switched.Add(uint64(c.frames))
		s.port.deliver(frame.NewBatch(c.held, c.frames), c.longest)
	}
	c.end()
}

// abandon ends the crossing and drops what is held. When it returns nothing of that is delivered any more.
func (c *crossing) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.from.port.counts.down.Add(uint64(c.frames))
	}
	c.end()
}

// end is the end of finish and abandon. The caller holds mu.
func (c *crossing) end() {
	if c.over {
		return
	}
	c.over, c.held = true, nil
	c.clock.Stop()
	c.lo.mu.Lock()
	delete(c.lo.markers, c.id)
	c.lo.mu.Unlock()
}

// isOver reports whether the flow may take the short way.
func (c *crossing) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// isMarker reports whether f is a marker of this network: no client is to see those, however late they come.
func (lo *local) isMarker(f []byte) bool {
	return len(f) == markerLen && binary.BigEndian.Uint16(f[12:]) == markerType && [markLen]byte(f[14:]) == lo.mark
}

// crossingsOf are those that s has begun.
func (lo *local) crossingsOf(s *switcher) (all []*crossing) {
	lo.mu.Lock()
	defer lo.mu.Unlock()
	for _, c := range lo.markers {
		if c.from == s {
			all = append(all, c)
		}
	}
	return all
}

// arrived ends the crossing whose marker is f, if it came to where it was to come by the line on which all frames before it
// came too.
func (lo *local) arrived(f []byte, s *switcher, l *line) {
	lo.mu.Lock()
	c := lo.markers[marker(f[14:])]
	lo.mu.Unlock()
	if c != nil && c.to.port.Load() == s && c.line == l {
		c.finish()
	}
}
