// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"sync"
	"sync/atomic"
)

// shutBit is the bit of gate.state that keeps further ones out; the bits below count those inside.
const shutBit = 1 << 62

// A gate lets goroutines through until it is shut, and tells when the last one has left. The
// zero value becomes usable by init.
type gate struct {
	state atomic.Int64
	once  sync.Once
	empty chan struct{} // closed when shut and nobody is inside
}

func (g *gate) init() { g.empty = make(chan struct{}) }

// enter reports whether the gate is open; whoever was let in calls leave.
func (g *gate) enter() bool {
	if g.state.Add(1)&shutBit != 0 {
		g.leave()
		return false
	}
	return true
}

func (g *gate) leave() {
	if g.state.Add(-1) == shutBit {
		g.once.Do(func() { close(g.empty) })
	}
}

// shut keeps everybody out from now on. The channel is closed once nobody is inside.
func (g *gate) shut() <-chan struct{} {
	g.state.Or(shutBit)
	if g.state.Load() == shutBit {
		g.once.Do(func() { close(g.empty) })
	}
	return g.empty
}
