// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// A switcher decides, with --local-switching=on, which of a client's frames go to another client's socket at once: those to
// an address that is known to be that client's. All others go out by what is behind the port, and what comes back in by it
// passes the switcher as well.
type switcher struct {
	port *port
	lo   *local

	places []*place // guarded by lo's mutex
	taken  uint64   // addresses that came from another client; guarded by lo's mutex
	gone   bool     // no address is learned any more; guarded by lo's mutex

	switched atomic.Uint64 // frames that took the short way
	// moved is when the line behind the port last changed. Frames of before and after do not keep their order in vmnet.
	moved atomic.Int64

	// What follows is used by Send alone.
	src       *place        // of the last frame
	full      uint32        // in which second there was no room for another address
	announced time.Duration // when an address may be announced again
	slow      time.Duration // when a write ended that took long: it counts for all addresses
	ways      [wayCount]way
	crossing  []*crossing
	marks     []byte // room for one
}

// Times of a switcher.
const (
	// tellAfter is after how many seconds on the short way alone a client is heard on vmnet's bridge again, which else forgets
	// where it is, and takes to all what the host sends to it. Bridges wait for 300 s or longer.
	tellAfter = 60
	// tellPause is between two announcements of one client on average, after tellBurst of them.
	tellPause = 20 * time.Millisecond
	tellBurst = 16
	// slowWrite is how long a write may take without notice. It is small against longAgo.
	slowWrite = 20 * time.Millisecond
)

// A way is what is known of the frames to one address, or to several that share it: then too little is known, never too
// much.
type way struct {
	mac    uint64        // of the last frame on vmnet's way
	at     time.Duration // when that was
	others time.Duration // the same for all addresses that had this way before
	open   *place        // on which nothing is on vmnet's way any more
}

const wayCount = 64 // a power of two

func newSwitcher(p *port, lo *local) *switcher {
	return &switcher{port: p, lo: lo, marks: make([]byte, frame.PrefixLen+markerLen)}
}

// A stretch is consecutive frames of a batch that go the same way.
type stretch struct {
	to      *place // nil: vmnet's
	start   int    // offset in the batch
	frames  int
	longest int // bytes
	src     uint64
	unicast bool // there is some, on vmnet's way
}

// send sends b, each frame by the way it is to take, in order.
func (s *switcher) send(b frame.Batch) {
	now := s.lo.now()
	var r stretch
	var lastSrc, lastDst uint64
	var from, to *place
	it := b.Iter()
	for it.Next() {
		f := it.Frame()
		dst := binary.BigEndian.Uint64(f) >> 16
		src := binary.BigEndian.Uint64(f[6:]) >> 16
		if src != lastSrc || dst != lastDst {
			if src != lastSrc {
				from = s.learn(src, now)
			}
			lastSrc, lastDst = src, dst
			to = s.route(dst)
			if r.frames > 0 && to != r.to {
				s.flush(b, r, it.Offset(), now)
				r = stretch{}
			}
			if r.frames == 0 {
				r = stretch{to: to, start: it.Offset(), src: src}
			}
			s.note(from, dst, to, now)
			r.unicast = r.unicast || to == nil && !isGroup(dst)
		}
		r.frames++
		r.longest = max(r.longest, len(f))
	}
	s.flush(b, r, len(b.Bytes()), now)
}

// learn notes that src is behind this client, and returns its place: nil when there is none to be had.
func (s *switcher) learn(src uint64, now time.Duration) *place {
	sec, p := seconds(now), s.src
	if p == nil || p.mac != src || p.port.Load() != s {
		if isGroup(src) || src == 0 {
			return nil
		}
		p = s.lo.find(src)
		if p == nil && s.full == sec { // each of a thousand addresses must not cost a lock
			return nil
		}
		if p == nil || p.port.Load() != s {
			if p = s.lo.enter(src, s, now); p == nil {
				s.full = sec
				return nil
			}
		}
		s.src = p
	}
	if p.seen.Load() != sec {
		p.seen.Store(sec)
	}
	return p
}

// route tells where dst is, nil: not behind a client, as far as is known.
func (s *switcher) route(dst uint64) *place {
	if isGroup(dst) {
		return nil
	}
	return s.lo.find(dst)
}

// note keeps account of a frame from an address to another one that is about to go its way.
func (s *switcher) note(from *place, dst uint64, to *place, now time.Duration) {
	sec := seconds(now)
	if to == nil {
		if !isGroup(dst) {
			s.stamp(dst, now)
		}
		if from != nil && from.told.Load() != sec {
			from.told.Store(sec)
		}
		return
	}
	if from != nil && sec-from.told.Load() >= tellAfter && now >= s.announced {
		s.announced = max(s.announced, now-tellBurst*tellPause) + tellPause
		from.told.Store(sec)
		var who seenMACs
		who.mac[0].Store(from.mac)
		s.port.sendLine(who.announcement())
	}
}

// stamp notes that a frame to dst takes vmnet's way.
func (s *switcher) stamp(dst uint64, now time.Duration) {
	w := s.way(dst)
	if w.mac != dst {
		w.others = max(w.others, w.at)
		w.mac = dst
	}
	w.at = now
	if c := s.crossingTo(dst); c != nil { // to where the address was before
		c.abandon()
		s.remove(c)
	}
}

func (s *switcher) way(mac uint64) *way { return &s.ways[s.lo.hash(mac)/placeBuckets%wayCount] }

// flush sends r, which ends at offset end of b.
func (s *switcher) flush(b frame.Batch, r stretch, end int, now time.Duration) {
	if r.frames == 0 {
		return
	}
	part := frame.NewBatch(b.Bytes()[r.start:end:end], r.frames)
	if r.to == nil {
		s.out(part, r.unicast, now)
		return
	}
	to := r.to.port.Load()
	switch {
	case to == nil: // forgotten since
		s.stamp(r.to.mac, now)
		s.out(part, true, now)
	case to == s:
		s.port.counts.hairpin.Add(uint64(r.frames))
	case s.ready(r.to, now) || s.cross(r, part, to, now):
		s.switched.Add(uint64(r.frames))
		to.port.deliver(part, r.longest)
	}
}

// out sends b by vmnet's way.
func (s *switcher) out(b frame.Batch, unicast bool, began time.Duration) {
	s.port.sendLine(b)
	if !unicast {
		return
	}
	if now := s.lo.now(); now-began > slowWrite {
		s.slow = now
	}
}

// ready reports whether the short way to p is open: see crossing.go.
func (s *switcher) ready(p *place, now time.Duration) bool {
	w := s.way(p.mac)
	if w.open == p {
		return true
	}
	last := w.others
	if w.mac == p.mac {
		last = w.at
	}
	if now-max(last, s.slow) < longAgo {
		c := s.crossingTo(p.mac)
		if c == nil || c.to != p || !c.isOver() {
			return false
		}
	}
	if c := s.crossingTo(p.mac); c != nil { // over, or nearly so: nothing may come behind what follows
		c.finish()
		s.remove(c)
	}
	w.open = p
	return true
}

// cross holds part, which is r, until the short way is open, and sees to it that it will be. It reports true when it is open
// already: then part has not been held.
func (s *switcher) cross(r stretch, part frame.Batch, to *switcher, now time.Duration) bool {
	c := s.crossingTo(r.to.mac)
	if c == nil {
		if len(s.crossing) >= maxCrossings {
			s.stamp(r.to.mac, now)
			s.out(part, true, now)
			return false
		}
		c = s.lo.newCrossing(s, r.to, s.trusted(to, now))
		s.crossing = append(s.crossing, c)
	}
	if !c.hold(part, r.longest) {
		s.remove(c)
		s.way(r.to.mac).open = r.to
		return true
	}
	// Behind hold: what is held must be there when the marker arrives.
	if c.line != nil && s.moved.Load() == c.moved && now-c.marked >= markAgain {
		c.marked = now
		s.port.sendLine(c.mark(s.marks, r.src))
	}
	return false
}

// trusted is the line by which a marker for to arrives behind all frames that are under way, nil if there is none because
// what is behind one of the two ports has changed lately.
func (s *switcher) trusted(to *switcher, now time.Duration) *line {
	if now-time.Duration(max(s.moved.Load(), to.moved.Load())) < transit {
		return nil
	}
	return to.port.line.Load()
}

// crossingTo is the crossing to mac, nil if there is none.
func (s *switcher) crossingTo(mac uint64) *crossing {
	for _, c := range s.crossing {
		if c.to.mac == mac {
			return c
		}
	}
	return nil
}

func (s *switcher) remove(c *crossing) {
	s.crossing = slices.DeleteFunc(s.crossing, func(d *crossing) bool { return d == c })
}

// moves is called when what is behind the port is about to change, but not for the first time.
func (s *switcher) moves() { s.moved.Store(int64(s.lo.now())) }

// close forgets the client. What is held of its frames is dropped.
func (s *switcher) close() {
	s.lo.leave(s)
	for _, c := range s.lo.crossingsOf(s) {
		c.abandon()
	}
}

// put puts l behind the port.
func (p *port) put(l *line) {
	if p.local == nil {
		p.line.Store(l)
		return
	}
	if p.facts.Load() != nil { // not the first
		p.local.moves()
	}
	p.line.Store(l)
	p.net.local.untold(p.local)
}

// settle waits until what has arrived for the port by now is delivered, for a short time at most.
func (p *port) settle() {
	switch l := p.line.Load(); {
	case l == nil:
	case l.shared != nil:
		p.net.hub.settle()
	default:
		for tries := maxSettles; tries > 0 && !l.dev.rd.settle(); tries-- {
		}
	}
}
