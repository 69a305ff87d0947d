// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync"
	"sync/atomic"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// A macAddr is a 48-bit Ethernet address in the low bits.
type macAddr uint64

func numberOf(b []byte) (m macAddr) {
	for _, x := range b {
		m = m<<8 | macAddr(x)
	}
	return m
}

// bytes is the address as it is in a frame.
func (m macAddr) bytes() network.MAC {
	return network.MAC{byte(m >> 40), byte(m >> 32), byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}
}

// isGroup reports a broadcast or multicast address.
func (m macAddr) isGroup() bool { return m>>40&1 != 0 }

// never is the time stamp of an entry that does not age.
const never = ^uint32(0)

// An entry tells behind which port an address is. A new port means a new entry.
type entry struct {
	port *Port
	seen atomic.Uint32 // when last, in seconds since the bridge began, or never
}

// A macTable is what is known of addresses: as many as all ports together may have. A look-up holds the lock for a moment, shared
// with others; it is held alone only when an address is new or has moved, and when a port goes.
type macTable struct {
	mu      sync.RWMutex
	entries map[macAddr]*entry
}

// find returns what is known of m, nil for nothing.
func (t *macTable) find(m macAddr) *entry {
	t.mu.RLock()
	e := t.entries[m]
	t.mu.RUnlock()
	return e
}

// expired tells whether the address was not seen for so long that it is as good as unknown.
func (e *entry) expired(now uint32) bool {
	seen := e.seen.Load()
	return seen != never && now > seen && now-seen > maxAge
}

// drop forgets m. The caller holds mu.
func (t *macTable) drop(m macAddr) {
	if e := t.entries[m]; e != nil {
		delete(e.port.macs, m)
		delete(t.entries, m)
	}
}

// set has m be behind p. The caller holds mu.
func (t *macTable) set(m macAddr, p *Port, seen uint32) {
	t.drop(m)
	e := &entry{port: p}
	e.seen.Store(seen)
	t.entries[m], p.macs[m] = e, e
}
