// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/test/soak/ledger"
)

// Witnesses stay as long as the daemon lives and talk to each other and to the gateway all the time: when nothing comes any more,
// they tell.
type witnesses struct {
	r       *run
	all     []*witness
	gateway netip.Addr
	mac     atomic.Pointer[[6]byte] // the gateway's

	mu    sync.Mutex
	since time.Time // nothing was done to the daemon since
}

type witness struct {
	w     *witnesses
	id    int // its number
	guest uint32
	via   transport
	addr  netip.Addr
	now   atomic.Pointer[station]
	heard []atomic.Int64 // when, of each witness, and of the gateway last; nanoseconds since the run began
}

// witnessWays are the transports of the witnesses.
var witnessWays = []transport{viaStream, viaPathFree, viaAttachDgram, viaAdoptStream}

const (
	firstWitness = 10_000 // guest
	witnessPause = 100 * time.Millisecond
	// settling is how long after something was done to the daemon silence does not count.
	settling = time.Second
)

func newWitnesses(r *run, gateway netip.Addr, first netip.Addr) *witnesses {
	w := &witnesses{r: r, gateway: gateway}
	for i, via := range witnessWays {
		w.all = append(w.all, &witness{
			w: w, id: i, guest: firstWitness + uint32(i), via: via, addr: first, heard: make([]atomic.Int64, len(witnessWays)+1),
		})
		first = first.Next()
	}
	return w
}

// rest tells that something is done to the daemon: it has all its patience again.
func (w *witnesses) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Now()
}

func (x *witness) run(ctx context.Context) {
	mac := newMAC(guestPrefix)
	for x.w.r.gate.enter(ctx) {
		s := x.w.r.connect(ctx, x.via, x.guest, func() net.HardwareAddr { return mac })
		if s != nil {
			x.session(ctx, s)
		}
		x.w.r.gate.leave()
		mac = newMAC(guestPrefix)
	}
}

func (x *witness) session(ctx context.Context, s *station) {
	r := x.w.r
	s.also = x.see
	for i := range x.heard {
		x.heard[i].Store(int64(r.now()))
	}
	s.start()
	x.now.Store(s)
	var o outbox
	s.add(&o, s.conn.MAC, ledger.Broadcast, 100)
	for n := 0; s.send(&o) && ctx.Err() == nil && !r.gate.shut.Load(); n++ {
		sleep(ctx, witnessPause)
		for _, other := range x.w.all {
			if t := other.now.Load(); t != nil && other != x {
				s.add(&o, s.conn.MAC, t.conn.Target(), 80+n%1400)
			}
		}
		if n%10 == 0 {
			x.ask(s, &o)
		}
	}
	x.now.Store(nil)
	if s.gone() {
		s.afterStop()
	} else {
		s.orderly()
	}
	s.line.unlink()
}

// ask asks for the gateway's address, behind the frames in o.
func (x *witness) ask(s *station, o *outbox) {
	f := fakeguest.EthernetFrame(fakeguest.Broadcast, s.conn.MAC, fakeguest.TypeARP,
		fakeguest.ARPPacket(fakeguest.ARPRequest, s.conn.MAC, x.addr, make(net.HardwareAddr, 6), x.w.gateway))
	o.wire = frame.Append(o.wire, f)
	o.frames++
	o.bytes += len(f)
}

// see notes from whom something came.
func (x *witness) see(f []byte) {
	now := int64(x.w.r.now())
	for i, other := range x.w.all {
		if s := other.now.Load(); s != nil && other != x && bytes.Equal(f[6:12], s.conn.MAC) && bytes.Equal(f[:6], x.macNow()) {
			x.heard[i].Store(now)
			return
		}
	}
	if mac := x.w.mac.Load(); mac != nil && bytes.Equal(f[6:12], mac[:]) {
		x.heard[len(x.w.all)].Store(now)
	}
}

func (x *witness) macNow() net.HardwareAddr {
	if s := x.now.Load(); s != nil {
		return s.conn.MAC
	}
	return nil
}

// judge looks for silence until ctx is done.
func (w *witnesses) judge(ctx context.Context) {
	for ctx.Err() == nil {
		sleep(ctx, 250*time.Millisecond)
		w.mu.Lock()
		since := w.since
		w.mu.Unlock()
		if time.Since(since) < settling || w.r.gate.shut.Load() || !w.r.ledger.Active() {
			continue
		}
		for _, x := range w.all {
			if s := x.now.Load(); s != nil && !s.gone() && w.r.now()-s.conn.Opened > settling {
				x.judge(since)
			}
		}
	}
}

// judge looks for silence since a time, when something was done to the daemon.
func (x *witness) judge(since time.Time) {
	r := x.w.r
	for i := range x.heard {
		name := "the gateway"
		if i < len(x.w.all) {
			other := x.w.all[i]
			s := other.now.Load()
			if other == x || s == nil || r.now()-s.conn.Opened < settling {
				continue
			}
			name = s.conn.String()
		}
		quiet := min(r.now()-time.Duration(x.heard[i].Load()), time.Since(since)-settling)
		r.totals.slowest(&r.totals.slowestGap, quiet)
		if quiet > r.o.Patience && !r.strain.excuses() {
			r.fail(silent, "witness %d (%s) has heard nothing from %s for %s", x.id, x.via, name, quiet.Round(time.Millisecond))
			x.heard[i].Store(int64(r.now()))
		}
	}
}

// findGateway asks for the gateway's address before anybody else is there.
func (r *run) findGateway() error {
	g, err := fakeguest.Dial(r.place.socket, fakeguest.Options{MAC: newMAC(hostilePrefix)})
	if err != nil {
		return err
	}
	defer g.Close()
	w := r.watch
	g.SetAddr(netip.PrefixFrom(w.all[0].addr, 24), w.gateway)
	for end := time.Now().Add(startPatience); time.Now().Before(end); {
		mac, err := g.Resolve(w.gateway)
		if err == nil {
			m := [6]byte(mac)
			w.mac.Store(&m)
			return nil
		}
		if !errors.Is(err, fakeguest.ErrTimeout) {
			return fmt.Errorf("ask for the gateway: %w", err)
		}
	}
	return errors.New("the gateway does not answer")
}
