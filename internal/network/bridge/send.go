// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/binary"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// A target is where a run of frames goes: to one port, or flooded.
type target struct {
	port *Port
	kind targetKind
}

type targetKind uint8

const (
	toNobody   targetKind = iota // no frame yet
	toPort                       // to target.port
	toSelf                       // to the port it came from: dropped
	toGroup                      // broadcast or multicast: to all others
	toUnknown                    // unknown unicast: to all others that want it
	toIsolated                   // from an isolated port to another: dropped
)

// A run is a stretch of consecutive frames of one batch with one target.
type run struct {
	target  target
	start   int // offset in the batch
	frames  int
	longest int // frame, bytes
}

// Send carries b to its destinations. It allocates nothing and takes no lock but those of the sinks, unless an address is
// new or has moved. One goroutine at a time calls it.
func (p *Port) Send(b frame.Batch) {
	if p.deliveries.IsShut() {
		p.drops.closed.Add(uint64(b.Len()))
		return
	}
	now := p.br.opts.Now()
	sec := seconds(now)
	// Neighbouring frames mostly share their addresses, so the last ones are remembered for this batch only: an address
	// that another port has taken meanwhile must come back with the next batch.
	var lastSrc, lastDst macAddr
	var r run
	it := b.Iter()
	for it.Next() {
		f := it.Frame()
		dst := macAddr(binary.BigEndian.Uint64(f) >> 16)
		src := macAddr(binary.BigEndian.Uint64(f[6:]) >> 16)
		if src != lastSrc {
			p.learn(src, sec)
			lastSrc = src
		}
		if dst != lastDst || r.frames == 0 {
			lastDst = dst
			if t := p.route(dst, sec); t != r.target {
				p.flush(b, r, it.Offset(), now)
				r = run{target: t, start: it.Offset()}
			}
		}
		r.frames++
		r.longest = max(r.longest, len(f))
	}
	p.flush(b, r, len(b.Bytes()), now)
}

// route decides where a frame to dst goes.
func (p *Port) route(dst macAddr, now uint32) target {
	if dst.isGroup() {
		return target{kind: toGroup}
	}
	id, ok := p.br.table.lookup(dst, now, maxAge)
	if !ok {
		return p.find(dst)
	}
	if id == p.id {
		return target{kind: toSelf}
	}
	q := p.br.byID[id].Load()
	if q == nil {
		return target{kind: toUnknown}
	}
	if p.opts.Isolated && q.opts.Isolated {
		return target{kind: toIsolated}
	}
	return target{kind: toPort, port: q}
}

// find decides where a frame to an address goes that the table does not have.
func (p *Port) find(dst macAddr) target {
	if p.br.opts.Find == nil {
		return target{kind: toUnknown}
	}
	switch q := p.br.opts.Find(uint64(dst)); {
	case q == nil:
		return target{kind: toUnknown}
	case q == p:
		return target{kind: toSelf}
	case p.opts.Isolated && q.opts.Isolated:
		return target{kind: toIsolated}
	default:
		return target{kind: toPort, port: q}
	}
}

// flush delivers r, which ends at offset end of b.
func (p *Port) flush(b frame.Batch, r run, end int, now time.Duration) {
	if r.frames == 0 {
		return
	}
	part := frame.NewBatch(b.Bytes()[r.start:end:end], r.frames)
	switch r.target.kind {
	case toPort:
		r.target.port.deliver(p, part, r.longest)
	case toSelf:
		p.drops.hairpin.Add(uint64(r.frames))
	case toGroup, toUnknown:
		p.flood(part, r, now)
	case toIsolated:
		p.drops.isolated.Add(uint64(r.frames))
	}
}

// flood delivers part to every other port, as far as the budget allows.
func (p *Port) flood(part frame.Batch, r run, now time.Duration) {
	if !p.opts.Trusted {
		if granted := p.storm.take(part.Len(), now); granted < part.Len() {
			p.drops.storm.Add(uint64(part.Len() - granted))
			part = part.Head(granted)
		}
	}
	if part.Len() == 0 {
		return
	}
	for _, q := range *p.br.all.Load() {
		if q == p || r.target.kind == toUnknown && q.opts.KnownOnly || p.opts.Isolated && q.opts.Isolated {
			continue
		}
		q.deliver(p, part, r.longest)
	}
}

// deliver hands part, which came from port src and whose longest frame is longest bytes, to p's sink.
func (p *Port) deliver(src *Port, part frame.Batch, longest int) {
	if !p.deliveries.Enter() {
		return
	}
	defer p.deliveries.Leave()
	if longest <= p.maxFrame {
		p.hand(src.id, part)
		return
	}
	p.deliverCut(src, part)
}

// deliverCut delivers what the sink takes of part, and counts the rest.
func (p *Port) deliverCut(src *Port, part frame.Batch) {
	part.Runs(func(f []byte) bool {
		if len(f) <= p.maxFrame {
			return true
		}
		src.drops.oversize.Add(1)
		return false
	}, func(run frame.Batch) { p.hand(src.id, run) })
}

func (p *Port) hand(src PortID, part frame.Batch) {
	if p.source != nil {
		p.source.DeliverFrom(src, part)
		return
	}
	p.sink.Deliver(part)
}

// A budget is a token bucket of frames. It is used by one goroutine.
type budget struct {
	rate  int64 // frames a second
	burst int64 // frames

	tokens int64 // in frames times a second, so that a rate below one frame a nanosecond stays exact
	last   time.Duration
}

func newBudget(rate, burst int) budget {
	return budget{rate: int64(rate), burst: int64(burst), tokens: int64(burst) * int64(time.Second)}
}

// take asks for n frames at time now and returns how many are granted.
func (b *budget) take(n int, now time.Duration) int {
	full := b.burst * int64(time.Second)
	// Longer than it takes to fill the bucket does not count; it also keeps the product below from overflowing.
	passed := min(now-b.last, time.Duration(full/b.rate)+1)
	b.last = now
	if passed > 0 {
		b.tokens = min(full, b.tokens+int64(passed)*b.rate)
	}
	granted := min(int64(n), b.tokens/int64(time.Second))
	b.tokens -= granted * int64(time.Second)
	return int(granted)
}
