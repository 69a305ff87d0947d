// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
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

// A source makes the decisions of one actor, and of each session of a guest. They depend on the seed, the actor and how many came
// before, whatever the machine is doing.
type source struct{ *rand.Rand }

func newSource(seed uint64, actor string) source {
	h := fnv.New64a()
	_, _ = h.Write([]byte(actor))
	return source{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// between is a duration from lo to hi.
func (s source) between(lo, hi time.Duration) time.Duration {
	return (lo + time.Duration(s.Int64N(int64(hi-lo)+1))).Round(time.Millisecond)
}

// choice is one of several things with its weight.
type choice[T any] struct {
	weight int
	what   T
}

func pick[T any](s source, all []choice[T]) T {
	sum := 0
	for _, c := range all {
		sum += c.weight
	}
	n := s.IntN(sum)
	for _, c := range all {
		if n -= c.weight; n < 0 {
			return c.what
		}
	}
	panic("unreachable")
}

// A session is what a guest does from one connecting to its end.
type session struct {
	Way     int
	Fresh   bool // an address that no guest has had before
	Steps   int
	Orderly bool          // at its end
	Wait    time.Duration // before the next one
}

// nextSession decides on the session of a guest whose usual way is usual.
func (s source) nextSession(usual, ways int) session {
	x := session{Way: usual, Fresh: s.IntN(10) < 7, Steps: 4 + s.IntN(40), Orderly: s.IntN(2) == 0, Wait: s.between(0, 300*time.Millisecond)}
	if s.IntN(4) == 0 {
		x.Way = s.IntN(ways)
	}
	return x
}

// A stepKind is what a guest does next.
type stepKind int

const (
	stepBurst     stepKind = iota // unicast to another guest
	stepBroadcast                 // to all
	stepUnknown                   // unicast to an address that is not there
	stepStall                     // does not read for a while
	stepPause                     // is silent
)

// A step is one of a session's.
type step struct {
	kind   stepKind
	to     int // guest
	frames int
	size   int // of the frames, at most, in bytes
	rest   time.Duration
	stall  time.Duration
}

func (s source) nextStep(guests int, pause time.Duration) step {
	return step{
		kind:   pick(s, []choice[stepKind]{{60, stepBurst}, {8, stepBroadcast}, {4, stepUnknown}, {3, stepStall}, {25, stepPause}}),
		to:     s.IntN(guests),
		frames: 1 + s.IntN(64),
		size:   pick(s, []choice[int]{{50, 200}, {35, 1514}, {10, 9014}, {4, 32768}, {1, 65550}}),
		rest:   s.between(0, 2*pause),
		stall:  s.between(50*time.Millisecond, 2*time.Second),
	}
}

// A guest behaves as virtual machines do, except that it comes and goes a lot.
type guest struct {
	r     *run
	id    int
	name  string
	src   source
	owner atomic.Pointer[station] // its connection, or the last it had
}

// run goes through sessions until ctx is done.
func (g *guest) run(ctx context.Context) {
	for ctx.Err() == nil {
		x := g.src.nextSession(g.id%len(g.r.ways), len(g.r.ways))
		g.session(ctx, x, newSource(g.src.Uint64(), g.name))
		sleep(ctx, x.Wait)
	}
}

func (g *guest) session(ctx context.Context, x session, src source) {
	s := g.r.connect(ctx, g.r.ways[x.Way], uint32(g.id), func() net.HardwareAddr {
		if last := g.owner.Load(); !x.Fresh && last != nil && last.conn.Gone() {
			return last.conn.MAC
		}
		return newMAC(guestPrefix)
	}, nil)
	if s == nil {
		return
	}
	g.owner.Store(s)
	s.add(ledger.Broadcast, ledger.MinLen)
	ok := s.send()
	for n := 0; ok && n < x.Steps && ctx.Err() == nil; n++ {
		ok = g.step(ctx, s, src.nextStep(len(g.r.guests), g.r.o.Pause)) && !s.gone()
	}
	s.close(x.Orderly)
}

// step does one step and reports whether the connection is fit for more.
func (g *guest) step(ctx context.Context, s *station, x step) bool {
	switch x.kind {
	case stepBurst:
		to, limit := g.r.target(s, x.to)
		most := min(x.size, fakeguest.MaxDatagramLen)
		if g.r.o.Backend == backendSimulator {
			most = min(x.size, 1514)
		}
		for i := range x.frames {
			n := most
			if i%3 != 0 {
				n = ledger.MinLen + n*(i*7%13)/13
			}
			s.add(to, min(n, limit))
		}
	case stepBroadcast:
		for range 1 + x.frames/11 {
			s.add(ledger.Broadcast, min(x.size, 1514))
		}
	case stepUnknown:
		for range 1 + x.frames/11 {
			s.add(ledger.Target{MAC: net.HardwareAddr{guestPrefix, 0xff, 0, 0, 0, byte(x.to)}, To: ledger.Any}, min(x.size, 1514))
		}
	case stepStall:
		s.stalled.Lock()
		sleep(ctx, x.stall)
		s.stalled.Unlock()
	case stepPause:
	}
	ok := s.send()
	sleep(ctx, x.rest)
	return ok
}
