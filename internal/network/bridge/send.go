// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// A target is where a run of frames goes: to one port, to nowhere, or else to all others.
type target struct {
	port  *Port
	drop  *atomic.Uint64 // counts those that are dropped
	group bool           // broadcast or multicast: also to ports that want known unicast only
}

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
			if t := p.route(dst, sec); t != r.target || r.frames == 0 {
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
		return target{group: true}
	}
	var q *Port
	if e := p.br.table.find(dst); e != nil && !e.expired(now) {
		q = e.port
	} else if p.br.opts.Find != nil {
		q = p.br.opts.Find(uint64(dst))
	}
	switch {
	case q == p:
		return target{drop: &p.drops.hairpin}
	case q != nil && p.opts.Isolated && q.opts.Isolated:
		return target{drop: &p.drops.isolated}
	}
	return target{port: q}
}

// flush delivers r, which ends at offset end of b.
func (p *Port) flush(b frame.Batch, r run, end int, now time.Duration) {
	part := frame.NewBatch(b.Bytes()[r.start:end:end], r.frames)
	switch {
	case r.frames == 0:
	case r.target.port != nil:
		r.target.port.deliver(p, part, r.longest)
		p.press(r.target.port, now)
	case r.target.drop != nil:
		r.target.drop.Add(uint64(r.frames))
	default:
		p.flood(part, r, now)
		p.others = now
	}
}

// press has p's client held if q, which p has just sent to, is behind, and all that p sent of late was for it.
func (p *Port) press(q *Port, now time.Duration) {
	if q.bounded == nil || !q.bounded.Full() {
		if q != p.slow {
			p.others = now
		}
		return
	}
	p.slow = q
	if p.opts.Hold != nil && now-p.others >= aloneTime {
		p.opts.Hold(q.bounded)
	}
}

// flood delivers part to every other port, as far as the budget allows.
func (p *Port) flood(part frame.Batch, r run, now time.Duration) {
	if !p.opts.Trusted {
		at := time.Time{}.Add(now)
		granted := min(part.Len(), int(p.storm.TokensAt(at)))
		p.storm.AllowN(at, granted)
		p.drops.storm.Add(uint64(part.Len() - granted))
		part = part.Head(granted)
	}
	if part.Len() == 0 {
		return
	}
	for _, q := range *p.br.ports.Load() {
		if q == p || !r.target.group && q.opts.KnownOnly || p.opts.Isolated && q.opts.Isolated {
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
		p.hand(src, part)
		return
	}
	part.Runs(func(f []byte) bool {
		if len(f) <= p.maxFrame {
			return true
		}
		src.drops.oversize.Add(1)
		return false
	}, func(run frame.Batch) { p.hand(src, run) })
}

func (p *Port) hand(src *Port, part frame.Batch) {
	if p.source != nil {
		p.source.DeliverFrom(src.opts.Source, part)
		return
	}
	p.sink.Deliver(part)
}
