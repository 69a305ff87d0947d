// SPDX-License-Identifier: Apache-2.0

package mmsg

import (
	"slices"
	"sync"
	"time"
)

// trimEvery is how long something lies unused before it is given up.
const trimEvery = 250 * time.Millisecond

// A Pool is a free list, of what all clients of the process share: one holds memory only while it has something to read or to send.
// A timer runs only while something lies unused.
type Pool[T any] struct {
	Drop func(T) // gives up what was not needed

	mu    sync.Mutex
	free  []T
	low   int // fewest free ones since the last trim: that many were not needed
	armed bool
}

// Get returns a free one, if there is one: the one that was put last.
func (p *Pool[T]) Get() (v T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free)
	if n == 0 {
		p.low = 0
		return v, false
	}
	v = p.free[n-1]
	p.free = slices.Delete(p.free, n-1, n)
	p.low = min(p.low, n-1)
	return v, true
}

// Put gives one back.
func (p *Pool[T]) Put(v T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, v)
	if !p.armed {
		p.armed = true
		p.low = len(p.free)
		time.AfterFunc(trimEvery, p.trim)
	}
}

// trim gives up what was not needed since the last time.
func (p *Pool[T]) trim() {
	p.mu.Lock()
	idle := slices.Clone(p.free[:p.low])
	p.free = slices.Delete(p.free, 0, p.low)
	p.low = len(p.free)
	if p.armed = p.low > 0; p.armed {
		time.AfterFunc(trimEvery, p.trim)
	}
	p.mu.Unlock()
	for _, v := range idle { // outside the lock: with many it takes tens of milliseconds
		p.Drop(v)
	}
}
