// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/test/soak/ledger"
)

// guestPrefix begins the addresses of guests, whose frames are the ledger's.
const guestPrefix = 0x52

// macs numbers the guests' addresses.
var macs atomic.Uint32

func newMAC(prefix byte) net.HardwareAddr {
	n := macs.Add(1)
	return net.HardwareAddr{prefix, 0x54, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

// A guest behaves as virtual machines do, except that it comes and goes a lot.
type guest struct {
	r     *run
	id    int
	via   transport // its usual one
	src   source
	mac   net.HardwareAddr
	owner atomic.Pointer[station] // its connection, or the last it had
}

// run goes through sessions until ctx is done.
func (g *guest) run(ctx context.Context) {
	for n := 0; g.r.gate.enter(ctx); n++ {
		x := g.src.nextSession(g.via, g.r.bounds())
		g.r.actions.add(guestName(g.id), n, "session", x)
		g.session(ctx, x)
		g.r.gate.leave()
		sleep(ctx, x.Wait)
	}
}

func (g *guest) session(ctx context.Context, x session) {
	s := g.r.connect(ctx, x.Transport, uint32(g.id), func() net.HardwareAddr {
		if x.Fresh || g.mac == nil {
			g.mac = newMAC(guestPrefix)
		}
		return g.mac
	})
	if s == nil {
		return
	}
	g.owner.Store(s)
	s.start()
	var o outbox
	s.add(&o, g.mac, ledger.Broadcast, ledger.MinLen)
	ok := s.send(&o)
	for _, step := range x.Steps {
		if !ok || ctx.Err() != nil || g.r.gate.shut.Load() {
			break
		}
		ok = g.step(ctx, s, step, &o) && !s.gone()
	}
	g.end(s, x.End)
}

// end ends the session by what was decided, unless the daemon was quicker.
func (g *guest) end(s *station, how ending) {
	switch {
	case s.gone():
		s.afterStop()
	case how == endOrderly:
		s.orderly()
	case how == endHalf && s.line.via.stream():
		f := s.conn.Compose(make([]byte, frame.PrefixLen), g.mac, ledger.Broadcast, 600)
		frame.PutPrefix(f, len(f)-frame.PrefixLen)
		_ = s.line.send(f[:len(f)/2])
		s.abrupt()
	default:
		s.abrupt()
	}
	if how != endLeave {
		s.line.unlink()
	}
}

// step does one step and reports whether the connection is fit for more.
func (g *guest) step(ctx context.Context, s *station, x step, o *outbox) bool {
	ok := true
	switch x.Kind {
	case stepBurst:
		to, limit := g.r.target(s, x.To)
		for range x.Frames {
			s.add(o, g.mac, to, min(g.r.vary(x.Size, o.frames), limit))
		}
		ok = s.send(o)
	case stepBroadcast:
		for range x.Frames {
			s.add(o, g.mac, ledger.Broadcast, x.Size)
		}
		ok = s.send(o)
	case stepUnknown:
		to := ledger.Target{MAC: net.HardwareAddr{guestPrefix, 0xff, 0, 0, 0, byte(x.To)}, To: ledger.Anybody}
		for range x.Frames {
			s.add(o, g.mac, to, x.Size)
		}
		ok = s.send(o)
	case stepDribble:
		to, limit := g.r.target(s, x.To)
		s.add(o, g.mac, to, min(x.Size, limit))
		ok = s.dribble(ctx, o)
	case stepStall:
		s.stalled.Lock()
		sleep(ctx, x.For)
		s.stalled.Unlock()
		return ok
	case stepPause:
	}
	sleep(ctx, x.For)
	return ok
}

// dribble sends what is in o in pieces, on a stream; on datagrams it is as send.
func (s *station) dribble(ctx context.Context, o *outbox) bool {
	if !s.line.via.stream() {
		return s.send(o)
	}
	const pieces = 5
	all := o.wire
	for i := range pieces - 1 {
		part := all[len(all)*i/pieces : len(all)*(i+1)/pieces]
		if err := s.line.send(part); err != nil {
			return s.failed(err)
		}
		sleep(ctx, 5*time.Millisecond)
	}
	o.wire = all[len(all)*(pieces-1)/pieces:]
	ok := s.send(o)
	o.wire = all[:0]
	return ok
}
