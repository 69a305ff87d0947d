// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
	"github.com/socket-vmnet2/socket_vmnet2/test/soak/ledger"
)

// The kinds of violations that are not the ledger's.
const (
	disconnected ledger.Kind = "disconnected" // a client that did nothing wrong
	refused      ledger.Kind = "refused"      // a client, while the daemon served
	exited       ledger.Kind = "exited"       // the daemon, by itself
	slowStop     ledger.Kind = "slow stop"
	logged       ledger.Kind = "logged" // what must not be in a log
	growth       ledger.Kind = "growth" // of what the daemon uses
	silent       ledger.Kind = "silent" // nothing is delivered any more
	upgraded     ledger.Kind = "upgrade"
	tolerated    ledger.Kind = "tolerated" // a client that must be closed was not
)

// A run is one soak.
type run struct {
	o        options
	ctx      context.Context // ends with the run
	abort    context.CancelCauseFunc
	began    time.Time
	socket   string // the daemon's
	metrics  string // its port
	ways     []vnettest.Transport
	ledger   *ledger.Ledger
	book     *book
	machine  lab.Machine
	daemon   *daemon
	guests   []*guest
	hostile  []*hostile
	watch    *witnesses
	totals   totals
	printing sync.Mutex   // of what is said while it runs
	mortal   atomic.Int64 // connections that end with the daemon
	// enough, if not nil, tells whether there was enough for the run to end in time: tests want something to have happened, however
	// busy the machine is.
	enough func() bool

	// Those who come and go do so in turns, between which the daemon has no client.
	turn   context.Context
	leave  context.CancelFunc
	actors sync.WaitGroup
}

// people makes those who come and go.
func (r *run) people() {
	for i := range r.o.Clients {
		name := fmt.Sprintf("guest %d", i)
		r.guests = append(r.guests, &guest{r: r, id: i, name: name, src: newSource(r.o.Seed, name)})
	}
	addr := witnessAddr
	r.watch = &witnesses{r: r}
	for i, way := range witnessWays {
		r.watch.all = append(r.watch.all, &witness{
			w: r.watch, id: i, guest: firstWitness + uint32(i), way: r.ways[way], addr: addr, heard: make([]atomic.Int64, len(witnessWays)+1),
		})
		addr = addr.Next()
	}
	r.hostile = []*hostile{
		newHostile(r, "hostile streams", slices.Concat(badLengths(), badFrames(), badFloods(), badReaders())),
		newHostile(r, "hostile datagrams", badDatagrams()), newHostile(r, "hostile requests", badRequests()),
		newHostile(r, "hostile neighbours", badNeighbours()),
	}
}

// run runs everything until the time is over.
func (r *run) run(ctx context.Context) error {
	r.ctx, r.abort = context.WithCancelCause(ctx)
	defer r.abort(nil)
	err := r.direct(r.ctx, newSource(r.o.Seed, "director"))
	if err == nil && r.ctx.Err() == nil {
		err = r.calm(r.ctx)
	}
	if errors.Is(context.Cause(r.ctx), errExited) {
		err = nil // it is a violation
	} else if r.daemon.pid() != 0 {
		r.totals.terms.Add(1)
		r.daemon.stop(syscall.SIGTERM)
	}
	r.abort(nil)
	r.actors.Wait()
	r.ledger.EndLife()
	r.book.newLife()
	return err
}

// come has the clients come and go from now on.
func (r *run) come() {
	r.turn, r.leave = context.WithCancel(r.ctx)
	for _, g := range r.guests {
		r.actors.Go(func() { g.run(r.turn) })
	}
	for _, w := range r.watch.all {
		r.actors.Go(func() { w.run(r.turn) })
	}
	for _, h := range r.hostile {
		r.actors.Go(func() { h.run(r.turn) })
	}
	r.actors.Go(func() { r.watch.judge(r.turn) })
}

// now is the time since the beginning of the run.
func (r *run) now() time.Duration { return time.Since(r.began) }

func (r *run) fail(k ledger.Kind, format string, args ...any) { r.ledger.Fail(k, format, args...) }

// target is where frames from a station to guest n go, and how long they may be for its present way in. When it is not there
// they go to the next one who is: what goes to an address that is not there is flooded.
func (r *run) target(from *station, n int) (ledger.Target, int) {
	for i := range r.guests {
		s := r.guests[(n+i)%len(r.guests)].owner.Load()
		if s != nil && s != from && !s.conn.Leaving() && !s.over.Load() {
			return s.conn.Target(), s.way.MaxFrame
		}
	}
	return ledger.Broadcast, ledger.MinLen
}

// alien says whether a frame that is not the ledger's may be there: from the hostile, the gateway, or a witness that asks for it.
func (r *run) alien(f []byte) bool {
	if len(f) < 14 {
		return false
	}
	if f[6] == hostilePrefix {
		return true
	}
	if mac := r.watch.mac.Load(); mac != nil && [6]byte(f[6:12]) == *mac {
		return true
	}
	if f[6] == guestPrefix && f[12] == 0x80 && f[13] == 0x35 && len(f) == 60 && bytes.Equal(f[6:12], f[22:28]) {
		return true // RARP: the daemon tells a network where a guest is
	}
	p, err := fakeguest.Parse(f)
	return err == nil && p.ARPOp == fakeguest.ARPRequest && f[6] == guestPrefix && f[0] == 0xff && p.DstIP == gatewayAddr &&
		bytes.Equal(p.SenderMAC, net.HardwareAddr(f[6:12])) && strings.HasPrefix(p.SrcIP.String(), "192.168.105.20")
}

// totals are what was done.
type totals struct {
	connections, retries, sent atomic.Uint64
	starts, terms, kills       atomic.Int64
	upgrades, freezes          atomic.Int64
	gatewayKills, few          atomic.Int64

	mu           sync.Mutex
	slowestStop  time.Duration
	slowestGap   time.Duration // of a witness
	upgradeTimes []time.Duration
	ways         map[string]int // connections
	hostile      map[string]int
	uses         []lab.Use    // at calms
	samples      [][2]lab.Use // of the daemon and the gateway, under load
}

func (t *totals) slowest(d *time.Duration, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*d = max(*d, took)
}

// count adds n to a key of a map of t's.
func (t *totals) count(m *map[string]int, key string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if *m == nil {
		*m = map[string]int{}
	}
	(*m)[key] += n
}
