// SPDX-License-Identifier: Apache-2.0

package network

import (
	"sync"
	"sync/atomic"
)

// shut is the bit of Gate.state that keeps further ones out; the bits below count those inside.
const shut = 1 << 62

// A Gate lets goroutines through until it is shut, and tells when the last one has left. Passing it is an addition at each
// end, so it may stand before every frame. Init makes the zero value usable.
type Gate struct {
	state atomic.Int64
	once  sync.Once
	empty chan struct{} // closed when shut and empty
}

// Init readies the gate, open. It is called once, before anything else.
func (g *Gate) Init() { g.empty = make(chan struct{}) }

// Enter reports whether the gate is open; after true the caller calls Leave.
func (g *Gate) Enter() bool {
	if g.state.Add(1)&shut != 0 {
		g.Leave()
		return false
	}
	return true
}

// Leave ends what Enter began.
func (g *Gate) Leave() {
	if g.state.Add(-1) == shut {
		g.once.Do(func() { close(g.empty) })
	}
}

// Shut has Enter fail from now on. The channel is closed once all inside have left. It may be called again.
func (g *Gate) Shut() <-chan struct{} {
	g.state.Or(shut)
	if g.state.Load() == shut {
		g.once.Do(func() { close(g.empty) })
	}
	return g.empty
}

// IsShut reports whether Shut has been called.
func (g *Gate) IsShut() bool { return g.state.Load()&shut != 0 }
