// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// A Conn is one connection of a guest: from its connecting to the network to its end.
type Conn struct {
	l         *Ledger
	ID        uint32
	Guest     uint32
	MAC       net.HardwareAddr
	Transport string
	Opened    time.Duration

	known   atomic.Int64 // since when the network knows its address, in the era knownIn
	knownIn atomic.Int64
	closing atomic.Bool // it has begun to end
	gone    atomic.Bool // the network has done with it
	done    atomic.Bool // Receive is not called any more
	old     bool        // it was there at the end of a life; guarded by the ledger

	// Of the sender, used by who composes.
	seq  uint64
	next map[uint32]uint64 // by the connection that frames are for

	// Of the receiver, used by who calls Receive, and after that has ended by the ledger.
	flows map[uint32]*flow // by sending connection

	// What the client did and saw, set by the client; read by Settle.
	Seen Seen
}

// Seen is what a client knows of its connection.
type Seen struct {
	SentFrames, SentBytes         atomic.Uint64 // valid lengths
	ReceivedFrames, ReceivedBytes atomic.Uint64
	// AllSent: everything that was sent had been read by the network before the connection ended.
	AllSent atomic.Bool
	// AllReceived: the client has read to the end, which was no cut frame.
	AllReceived atomic.Bool
}

// A flow is what a connection receives from another one.
type flow struct {
	last  uint64 // sequence
	seen  uint64 // bit n: last-n came
	mine  place  // in the frames for this connection
	all   place  // in those for all
	lost  uint64
	first string // where that began
	known bool   // lost was taken into account
}

// A place is how far a numbered flow has come.
type place struct {
	last uint64
	sent time.Duration
	era  int
}

// Closing tells that c is about to end, before anything is done about it: its address is not safe from now on.
func (c *Conn) Closing() { c.closing.Store(true) }

// Leaving reports that c has begun to end.
func (c *Conn) Leaving() bool { return c.closing.Load() }

// Gone reports that the network has ended c.
func (c *Conn) Gone() bool { return c.gone.Load() }

// Finish tells that Receive is not called any more.
func (c *Conn) Finish() {
	c.closing.Store(true)
	c.done.Store(true)
}

// Receive judges a frame that came on c. It is called by one goroutine at a time and keeps nothing of f.
func (c *Conn) Receive(f []byte) {
	l := c.l
	c.Seen.ReceivedFrames.Add(1)
	c.Seen.ReceivedBytes.Add(uint64(len(f)))
	h, kind, err := l.parse(f)
	if errors.Is(err, errAlien) {
		c.alien(f)
		return
	}
	if err != nil {
		l.Fail(kind, "%s received: %v; it begins with % x", c, err, f[:min(len(f), 64)])
		return
	}
	l.mu.RLock()
	sender := l.conns[h.conn]
	l.mu.RUnlock()
	if sender == nil {
		l.Fail(Corrupted, "%s received a frame of connection %d, which there is not", c, h.conn)
		return
	}
	l.Stats.Frames.Add(1)
	e := l.era.Load()
	if sender == c {
		l.Fail(Returned, "%s received frame %d of its own", c, h.seq)
		return
	}
	if f[0]&1 == 0 {
		c.owned(f, h, sender, e)
	}
	if e.active && h.sent >= e.began && sender.knownIn.Load() != int64(e.number) { // now the network has seen the sender's address
		sender.known.Store(int64(l.opts.Now()))
		sender.knownIn.Store(int64(e.number))
	}
	c.order(h, sender, e)
}

// alien judges a frame that is not of the ledger.
func (c *Conn) alien(f []byte) {
	if c.l.opts.Alien == nil || !c.l.opts.Alien(f) {
		c.l.Fail(Corrupted, "%s received a frame of %d bytes that no client sent: % x", c, len(f), f[:min(len(f), 64)])
		return
	}
	if f[0]&1 != 0 || bytes.Equal(f[:6], c.MAC) {
		return
	}
	// When it was sent is not known: only an owner who has been known for long counts.
	if o := c.l.safe(f[:6], c.l.opts.Now()-alienAge, c.l.era.Load()); o != nil && o != c {
		c.l.Fail(Misdelivered, "%s received a frame of others for %s: % x", c, o, f[:min(len(f), 64)])
	}
}

// alienAge is how old a frame is at most that does not tell when it was sent.
const alienAge = 20 * time.Second

// safe is the connection that owned mac from when sent was on until now for sure, nil if there is none.
func (l *Ledger) safe(mac []byte, sent time.Duration, e *era) *Conn {
	l.mu.RLock()
	o := l.owners[[6]byte(mac)]
	l.mu.RUnlock()
	if o == nil || o.knownIn.Load() != int64(e.number) || time.Duration(o.known.Load()) > sent {
		return nil
	}
	// In this order: whatever happened to o happened after the frame had been received.
	if o.closing.Load() || l.era.Load() != e {
		return nil
	}
	return o
}

// owned judges where a unicast frame is.
func (c *Conn) owned(f []byte, h header, sender *Conn, e *era) {
	if !e.active {
		return
	}
	o := c.l.safe(f[:6], h.sent, e)
	switch o {
	case nil:
		if !bytes.Equal(f[:6], c.MAC) {
			c.l.Stats.Flooded.Add(1)
		}
	case c:
		c.l.Stats.Owned.Add(1)
	default:
		c.l.Stats.Owned.Add(1)
		c.l.Fail(Misdelivered, "%s received frame %d of %s for %s, sent at %s, owner known since %s",
			c, h.seq, sender, o, h.sent, time.Duration(o.known.Load()))
	}
}

// order judges whether a frame comes once and in its place, and counts what is missing before it.
func (c *Conn) order(h header, sender *Conn, e *era) {
	x := c.flows[h.conn]
	if x == nil {
		x = &flow{}
		c.flows[h.conn] = x
	}
	if h.seq <= x.last {
		d := x.last - h.seq
		switch {
		case d < 64 && x.seen>>d&1 != 0:
			c.l.Fail(Duplicated, "%s received frame %d of %s again", c, h.seq, sender)
		default:
			x.seen |= 1 << min(d, 63)
			c.l.Fail(Reordered, "%s received frame %d of %s after frame %d", c, h.seq, sender, x.last)
		}
		return
	}
	if d := h.seq - x.last; d < 64 {
		x.seen <<= d
	} else {
		x.seen = 0
	}
	x.seen |= 1
	x.last = h.seq
	switch h.to {
	case c.ID:
		c.count(&x.mine, x, h, e)
	case All:
		c.count(&x.all, x, h, e)
	}
}

// count adds up what is missing between two frames of a flow.
func (c *Conn) count(p *place, x *flow, h header, e *era) {
	before := *p
	*p = place{last: h.flow, sent: h.sent, era: e.number}
	if before.last == 0 || h.flow <= before.last+1 {
		return
	}
	n := h.flow - before.last - 1
	if before.era != e.number || before.sent < e.began || !e.active {
		c.l.Stats.Excused.Add(n)
		return
	}
	c.l.Stats.Missing.Add(n)
	if x.lost == 0 {
		x.first = fmt.Sprintf("between frames %d and %d for connection %d, sent at %s and %s, at %s",
			before.last, h.flow, int32(h.to), before.sent, h.sent, c.l.opts.Now())
	}
	x.lost += n
}
