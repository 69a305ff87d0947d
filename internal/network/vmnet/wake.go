// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

const (
	// wakeEvery is how often the clocks are compared.
	wakeEvery = 5 * time.Second
	// leastSleep is how far the wall clock must have run ahead for the host to have slept.
	leastSleep = 10 * time.Second
	// wakePatience is how long an interface that is looked at has to fail.
	wakePatience = time.Second
)

// A wakeUp is what was found after the host had slept.
type wakeUp struct {
	At        time.Time // when it was noticed
	Slept     time.Duration
	Restarted int // interfaces that had died, and were started again
}

// watchSleep compares the clocks until the network ends: while a Mac sleeps the wall clock goes on, and the one that timers have stands
// still. A wall clock that is set looks the same, and costs a look at the interfaces.
func (n *Network) watchSleep() {
	tick := time.NewTicker(wakeEvery)
	defer tick.Stop()
	for {
		wall, began := n.opts.wall(), time.Now()
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
		}
		now := n.opts.wall()
		if slept := now.Sub(wall) - time.Since(began); slept >= leastSleep {
			n.woke(now, slept.Round(time.Second))
		}
	}
}

// woke has every interface read once. One that has died in the sleep may have no events any more, so that nothing else would tell; its
// keeper starts another.
func (n *Network) woke(now time.Time, slept time.Duration) {
	before := n.restarts.Load()
	interfaces := n.shared.look()
	for _, p := range *n.ports.Load() {
		if i := p.own.Load(); i != nil {
			i.ifc.Wake()
			interfaces++
		}
	}
	if sleep(n.ctx, wakePatience) != nil {
		return
	}
	w := wakeUp{At: now, Slept: slept, Restarted: int(n.restarts.Load() - before)}
	n.wake.Store(&w)
	n.wakes.Add(1)
	n.log.Info("the host has slept: looked at the interfaces", "slept", slept, "interfaces", interfaces, "restarted", w.Restarted)
}

// look has the anchor read once, and tells whether there is one. Nothing reads it while no client shares it.
func (s *sharedInterface) look() (anchors int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.anchor.Load()
	if i == nil {
		return 0
	}
	i.ifc.Wake() // whoever reads it
	for tries := 0; i.reader == nil && tries < maxFailures; tries++ {
		i.read(true, func(frame.Batch) {}, new(atomic.Uint64))
		s.deafen()
	}
	return 1
}
