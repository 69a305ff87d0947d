// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/soak/ledger"
)

// firstForger is the number of the first forger among the guests of the ledger. Nobody but forgers sends to them.
const firstForger = 20_000

// A forger sends from addresses of others: of other forgers, so that those of guests stay safe; on a network that promises to
// let nobody do that, of guests.
type forger struct {
	r   *run
	id  int
	via transport
	src source
	mac net.HardwareAddr // always the same
}

// A forgery is what a forger does next.
type forgery struct {
	Victim int           `json:"victim"`
	To     int           `json:"to"`
	Frames int           `json:"frames"`
	Own    bool          `json:"own"` // from its own address
	For    time.Duration `json:"for"`
}

func (s source) nextForgery(victims, guests int) forgery {
	return forgery{
		Victim: s.IntN(victims), To: s.IntN(guests), Frames: 1 + s.IntN(20), Own: s.IntN(4) == 0,
		For: s.between(10*time.Millisecond, 150*time.Millisecond),
	}
}

func (f *forger) run(ctx context.Context) {
	for n := 0; f.r.gate.enter(ctx); n++ {
		steps := 5 + f.src.IntN(50)
		f.session(ctx, n, steps)
		f.r.gate.leave()
		sleep(ctx, f.src.between(0, 200*time.Millisecond))
	}
}

func (f *forger) session(ctx context.Context, n, steps int) {
	f.r.ledger.Forge(f.mac)
	s := f.r.connect(ctx, f.via, uint32(firstForger+f.id), func() net.HardwareAddr { return f.mac })
	if s == nil {
		return
	}
	s.start()
	var o outbox
	s.add(&o, f.mac, ledger.Broadcast, ledger.MinLen)
	ok := s.send(&o)
	victims := len(f.r.forgers)
	if f.r.o.AntiSpoof {
		victims = len(f.r.guests)
	}
	for range steps {
		x := f.src.nextForgery(victims, len(f.r.guests))
		if !ok || s.gone() || ctx.Err() != nil || f.r.gate.shut.Load() {
			continue // the decisions are made all the same
		}
		f.r.actions.add(fmt.Sprintf("forger %d", f.id), n, "forge", x)
		ok = f.forge(s, x, &o)
		sleep(ctx, x.For)
	}
	if s.gone() {
		s.afterStop()
	} else {
		s.orderly()
	}
	s.line.unlink()
}

func (f *forger) forge(s *station, x forgery, o *outbox) bool {
	from := f.mac
	switch {
	case x.Own:
	case f.r.o.AntiSpoof:
		if v := f.r.guests[x.Victim].owner.Load(); v != nil {
			from = v.conn.MAC
		}
	default:
		from = f.r.forgers[x.Victim].mac
	}
	to, _ := f.r.target(s, x.To)
	if x.To%5 == 0 { // to a forger: whoever has the address now
		to = ledger.Target{MAC: f.r.forgers[x.To%len(f.r.forgers)].mac, To: ledger.Anybody}
	}
	for range x.Frames {
		s.add(o, from, to, 100)
	}
	if &from[0] != &f.mac[0] {
		f.r.totals.tried("forged source address", x.Frames)
	}
	return s.send(o)
}
