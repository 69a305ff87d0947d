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

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
	"github.com/socket-vmnet2/socket_vmnet2/test/soak/ledger"
)

// Witnesses stay as long as the daemon lives and talk to each other and to the gateway all the time: when nothing comes any more,
// they tell.
type witnesses struct {
	r   *run
	all []*witness
	mac atomic.Pointer[[6]byte] // the gateway's

	mu    sync.Mutex
	since time.Time // nothing was done to the daemon since
}

type witness struct {
	w     *witnesses
	id    int // its number
	guest uint32
	way   vnettest.Transport
	addr  netip.Addr
	now   atomic.Pointer[station]
	heard []atomic.Int64 // when, of each witness, and of the gateway last; nanoseconds since the run began
}

// witnesses' ways in, by their number in vnettest.Ways: the stream, the path that outlives a daemon, attach, and adopt for a stream.
var witnessWays = []int{0, 2, 3, 7}

const (
	firstWitness = 10_000 // guest
	witnessPause = 100 * time.Millisecond
	// settling is how long after something was done to the daemon silence does not count.
	settling = time.Second
)

// rest tells that something is done to the daemon: it has all its patience again.
func (w *witnesses) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Now()
}

func (x *witness) run(ctx context.Context) {
	for ctx.Err() == nil {
		if s := x.w.r.connect(ctx, x.way, x.guest, func() net.HardwareAddr { return newMAC(guestPrefix) }, x.see); s != nil {
			x.session(ctx, s)
		}
	}
}

func (x *witness) session(ctx context.Context, s *station) {
	for i := range x.heard {
		x.heard[i].Store(int64(x.w.r.now()))
	}
	x.now.Store(s)
	s.add(ledger.Broadcast, 100)
	for n := 0; s.send() && ctx.Err() == nil; n++ {
		sleep(ctx, witnessPause)
		for _, other := range x.w.all {
			if t := other.now.Load(); t != nil && other != x {
				s.add(t.conn.Target(), 80+n%1400)
			}
		}
		if n%10 == 0 { // it asks for the gateway's address
			s.out = append(s.out, fakeguest.EthernetFrame(fakeguest.Broadcast, s.conn.MAC, fakeguest.TypeARP,
				fakeguest.ARPPacket(fakeguest.ARPRequest, s.conn.MAC, x.addr, make(net.HardwareAddr, 6), gatewayAddr)))
		}
	}
	x.now.Store(nil)
	s.close(true)
}

// see notes from whom something came.
func (x *witness) see(f []byte) {
	now, me := int64(x.w.r.now()), x.now.Load()
	for i, other := range x.w.all {
		s := other.now.Load()
		if s != nil && me != nil && other != x && bytes.Equal(f[6:12], s.conn.MAC) && bytes.Equal(f[:6], me.conn.MAC) {
			x.heard[i].Store(now)
			return
		}
	}
	if mac := x.w.mac.Load(); mac != nil && bytes.Equal(f[6:12], mac[:]) {
		x.heard[len(x.w.all)].Store(now)
	}
}

// judge looks for silence until ctx is done.
func (w *witnesses) judge(ctx context.Context) {
	for ctx.Err() == nil {
		sleep(ctx, 250*time.Millisecond)
		w.mu.Lock()
		since := w.since
		w.mu.Unlock()
		if time.Since(since) < settling || !w.r.ledger.Active() {
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
		if quiet > r.o.Patience {
			r.fail(silent, "witness %d (%s) has heard nothing from %s for %s", x.id, x.way.Name, name, quiet.Round(time.Millisecond))
			x.heard[i].Store(int64(r.now()))
		}
	}
}

// findGateway asks for the gateway's address before any guest is there.
func (r *run) findGateway() error {
	g, err := fakeguest.Dial(r.socket, fakeguest.Options{MAC: newMAC(hostilePrefix)})
	if err != nil {
		return err
	}
	defer g.Close()
	w := r.watch
	g.SetAddr(netip.PrefixFrom(w.all[0].addr, 24), gatewayAddr)
	for end := time.Now().Add(startPatience); time.Now().Before(end); {
		mac, err := g.Resolve(gatewayAddr)
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
