// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// A macAddr is a 48-bit Ethernet address in the low bits.
type macAddr uint64

func numberOf(b []byte) (m macAddr) {
	for _, x := range b {
		m = m<<8 | macAddr(x)
	}
	return m
}

// isGroup reports a broadcast or multicast address.
func (m macAddr) isGroup() bool { return m>>40&1 != 0 }

// slotsPerBucket makes the addresses of a bucket one cache line, so that a look-up reads one line, two at the most.
const slotsPerBucket = 8

// never is the time stamp of an entry that does not age.
const never = ^uint32(0)

// A macTable maps addresses to ports. Look-ups take no lock; every change is made under mu, which is taken only when an
// address is new or has moved. Each address has two buckets it may live in, chosen by a secret seed, so that no guest can
// aim at a bucket; a full pair of buckets means "not learned", never an eviction of a live entry.
type macTable struct {
	seed uint64
	mask uint32 // number of buckets - 1

	// words holds address<<16 | port + 1, or 0 for a free slot.
	words []atomic.Uint64
	// seen holds when the address was last seen, in seconds since the bridge began, or never.
	seen []atomic.Uint32

	mu sync.Mutex // serialises the writers of words
}

// newMACTable makes a table with room for at least n addresses.
func newMACTable(n int) *macTable {
	buckets := 1 << bits.Len(uint((n-1)/slotsPerBucket))
	return &macTable{
		seed:  rand.Uint64(),
		mask:  uint32(buckets - 1),
		words: make([]atomic.Uint64, buckets*slotsPerBucket),
		seen:  make([]atomic.Uint32, buckets*slotsPerBucket),
	}
}

// buckets are the first slots of m's two buckets.
func (t *macTable) buckets(m macAddr) (uint32, uint32) {
	// A multiplication by an odd constant (2^64 divided by the golden ratio) spreads addresses that differ in their low
	// bits only over the upper half, from which both buckets are taken.
	h := (uint64(m) ^ t.seed) * 0x9e3779b97f4a7c15
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	return uint32(h>>32) & t.mask * slotsPerBucket, uint32(h) & t.mask * slotsPerBucket
}

// find returns m's slot and its word, or ok = false.
func (t *macTable) find(m macAddr) (slot uint32, word uint64, ok bool) {
	a, b := t.buckets(m)
	for _, first := range [2]uint32{a, b} {
		words := t.words[first : first+slotsPerBucket]
		for i := range words {
			if w := words[i].Load(); macAddr(w>>16) == m && w != 0 {
				return first + uint32(i), w, true
			}
		}
	}
	return 0, 0, false
}

// lookup returns the port behind m. An entry not seen for more than maxAge seconds is as good as absent.
func (t *macTable) lookup(m macAddr, now, maxAge uint32) (PortID, bool) {
	slot, w, ok := t.find(m)
	if !ok || expired(t.seen[slot].Load(), now, maxAge) {
		return 0, false
	}
	return PortID(w&0xffff) - 1, true
}

// refresh renews m's time stamp if it belongs to id and reports whether it does. It is the path of nearly every frame and
// writes nothing more than once a second.
func (t *macTable) refresh(m macAddr, id PortID, now uint32) bool {
	slot, w, ok := t.find(m)
	if !ok || PortID(w&0xffff)-1 != id {
		return false
	}
	if s := t.seen[slot].Load(); s != now && s != never {
		t.seen[slot].Store(now)
	}
	return true
}

// freeSlot finds a slot for m that is empty or has expired. The caller holds mu.
func (t *macTable) freeSlot(m macAddr, now, maxAge uint32) (uint32, bool) {
	a, b := t.buckets(m)
	for _, first := range [2]uint32{a, b} {
		for s := first; s < first+slotsPerBucket; s++ {
			if t.words[s].Load() == 0 {
				return s, true
			}
		}
	}
	for _, first := range [2]uint32{a, b} {
		for s := first; s < first+slotsPerBucket; s++ {
			if expired(t.seen[s].Load(), now, maxAge) {
				return s, true
			}
		}
	}
	return 0, false
}

// set writes an entry. The time stamp goes first: a reader that sees the address must not take it for expired. The caller
// holds mu.
func (t *macTable) set(slot uint32, m macAddr, id PortID, seen uint32) {
	t.seen[slot].Store(seen)
	t.words[slot].Store(uint64(m)<<16 | uint64(id) + 1)
}

// owner is the port of the entry in slot. The caller holds mu and knows that the slot is in use.
func (t *macTable) owner(slot uint32) PortID { return PortID(t.words[slot].Load()&0xffff) - 1 }

func expired(seen, now, maxAge uint32) bool {
	return seen != never && now > seen && now-seen > maxAge
}
