// SPDX-License-Identifier: Apache-2.0

package mmsg

import (
	"slices"
	"sync"
	"time"
)

// trimEvery is how long a Receiver lies unused before its memory goes back to the system.
const trimEvery = 250 * time.Millisecond

// receivers is shared by all clients of the process: one holds memory only while it has something to read.
var receivers pool

// A pool is the free list of Receivers. A timer runs only while some lie unused.
type pool struct {
	mu    sync.Mutex
	free  [2][]*Receiver // without and with names
	low   [2]int         // fewest free ones since the last trim: that many were not needed
	armed bool
}

func kind(names bool) int {
	if names {
		return 1
	}
	return 0
}

// get returns a free Receiver, or nil.
func (p *pool) get(names bool) *Receiver {
	k := kind(names)
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free[k])
	if n == 0 {
		p.low[k] = 0
		return nil
	}
	r := p.free[k][n-1]
	p.free[k][n-1] = nil
	p.free[k] = p.free[k][:n-1]
	p.low[k] = min(p.low[k], n-1)
	return r
}

// put gives a Receiver back.
func (p *pool) put(r *Receiver) {
	k := kind(r.names)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free[k] = append(p.free[k], r)
	if !p.armed {
		p.armed = true
		for i := range p.free {
			p.low[i] = len(p.free[i])
		}
		time.AfterFunc(trimEvery, p.trim)
	}
}

// trim releases the Receivers that nobody needed since the last time.
func (p *pool) trim() {
	var idle []*Receiver
	p.mu.Lock()
	p.armed = false
	for k := range p.free {
		n := p.low[k]
		idle = append(idle, p.free[k][:n]...)
		p.free[k] = slices.Delete(p.free[k], 0, n)
		p.low[k] = len(p.free[k])
		p.armed = p.armed || p.low[k] > 0
	}
	if p.armed {
		time.AfterFunc(trimEvery, p.trim)
	}
	p.mu.Unlock()
	for _, r := range idle { // outside the lock: with many it takes tens of milliseconds
		// It cannot fail for a mapping of our own; if it does, the memory is lost but nothing else.
		_ = r.way.free()
	}
}
