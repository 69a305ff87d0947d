// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package ffi

// used counts the slots in use.
func (t *table[H]) used() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fresh - len(t.free)
}

// Gauges are what exists on this side.
type Gauges struct {
	Interfaces, Queues, Networks int64
	Events, Starts, Answers      int // blocks
	Applies                      int
}

// Gauges counts.
func (a *API) Gauges() Gauges {
	return Gauges{
		a.interfaces.Load(), a.queues.Load(), a.networks.Load(),
		a.blocks.event.used(), a.blocks.start.used(), a.blocks.status.used(), a.blocks.apply.used(),
	}
}

// Functions are the names of all functions that are bound and there.
func (a *API) Functions() (names []string) {
	for _, s := range a.f.table() {
		if s.fn.addr != 0 {
			names = append(names, s.name)
		}
	}
	return names
}

// Keys are the names of all keys that are bound and there.
func (a *API) Keys() (names []string) {
	for _, s := range a.k.table() {
		if s.key.addr != 0 {
			names = append(names, s.name)
		}
	}
	return names
}
