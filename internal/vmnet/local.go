// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	crand "crypto/rand"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of the table of local addresses.
const (
	// maxPlaces is how many addresses of one client are known. Frames to and from further ones take vmnet's way, which is
	// always right.
	maxPlaces = 64
	// placeAge is after how many seconds of silence an address makes room for another one of the same client. Nothing else
	// makes it stale: as long as its client is there, nobody else can tell where it is.
	placeAge = 300
	// placeBuckets is a power of two.
	placeBuckets = 1 << 12
)

// local knows behind which client each address is, with --local-switching=on. It learns from what clients send, and forgets
// an address that is seen elsewhere. Forgetting too much is never wrong: frames then take vmnet's way, and come back to the
// short one as crossing.go tells.
type local struct {
	start time.Time
	seed  uint64 // so that nobody can aim at a bucket
	table [placeBuckets]atomic.Pointer[place]

	mark [markLen]byte // of this network's markers

	mu      sync.Mutex // guards every change of the table, and what follows
	markers map[marker]*crossing
}

// A place is what is known of an address from the moment it is learned until it is forgotten; then there is another one.
type place struct {
	mac  uint64
	at   time.Duration            // when it was learned
	port atomic.Pointer[switcher] // whose it is; nil: forgotten
	seen atomic.Uint32            // when it last sent, in seconds
	// told is when vmnet last heard from it by the client's interface, in seconds; 0: not yet.
	told atomic.Uint32
	next atomic.Pointer[place] // in the bucket
}

func newLocal() *local {
	lo := &local{start: time.Now(), seed: rand.Uint64(), markers: map[marker]*crossing{}}
	_, _ = crand.Read(lo.mark[:])
	return lo
}

// now is a clock that is beyond all periods of time here when it begins, so that 0 is long ago.
func (lo *local) now() time.Duration { return time.Since(lo.start) + time.Hour }

func seconds(now time.Duration) uint32 { return uint32(now / time.Second) }

// hash spreads addresses that differ in few bits.
func (lo *local) hash(mac uint64) uint64 {
	h := (mac ^ lo.seed) * 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	return (h ^ h>>32) * 0x9e3779b97f4a7c15 >> 32
}

func isGroup(mac uint64) bool { return mac>>40&1 != 0 }

// find returns the place of mac, nil if it is not known. It takes no lock.
func (lo *local) find(mac uint64) *place {
	p := lo.table[lo.hash(mac)%placeBuckets].Load()
	for p != nil && p.mac != mac {
		p = p.next.Load()
	}
	return p
}

// enter notes that mac is behind s, and returns its place: nil when s has as many as it may.
func (lo *local) enter(mac uint64, s *switcher, now time.Duration) *place {
	lo.mu.Lock()
	defer lo.mu.Unlock()
	p := lo.find(mac)
	if p != nil {
		if owner := p.port.Load(); owner == s {
			return p
		}
	}
	if !lo.room(s, now) {
		if p != nil { // whoever has it, it is not where it was
			lo.drop(p)
		}
		return nil
	}
	if p == nil {
		p = &place{mac: mac, at: now}
		bucket := &lo.table[lo.hash(mac)%placeBuckets]
		p.next.Store(bucket.Load())
		p.port.Store(s)
		bucket.Store(p)
	} else {
		s.taken++
		lo.disown(p)
		p.told.Store(0)
		p.port.Store(s)
	}
	p.seen.Store(seconds(now))
	s.places = append(s.places, p)
	return p
}

// room reports whether s may have one more address, after it has given up those that are silent. The caller holds mu.
func (lo *local) room(s *switcher, now time.Duration) bool {
	if s.gone {
		return false
	}
	if len(s.places) < maxPlaces {
		return true
	}
	for _, p := range slices.Clone(s.places) {
		if seconds(now)-p.seen.Load() > placeAge {
			lo.drop(p)
		}
	}
	return len(s.places) < maxPlaces
}

// forget drops p unless that has happened already.
func (lo *local) forget(p *place) {
	lo.mu.Lock()
	defer lo.mu.Unlock()
	if p.port.Load() != nil {
		lo.drop(p)
	}
}

// drop takes p out of the table. The caller holds mu.
func (lo *local) drop(p *place) {
	link := &lo.table[lo.hash(p.mac)%placeBuckets]
	for q := link.Load(); q != nil && q != p; q = link.Load() {
		link = &q.next
	}
	link.Store(p.next.Load()) // who stands at p finds its way on
	lo.disown(p)
	p.port.Store(nil)
}

// disown takes p off its owner's list. The caller holds mu.
func (lo *local) disown(p *place) {
	s := p.port.Load()
	s.places = slices.DeleteFunc(s.places, func(q *place) bool { return q == p })
}

// leave forgets all addresses of s, for good.
func (lo *local) leave(s *switcher) {
	lo.mu.Lock()
	defer lo.mu.Unlock()
	s.gone = true
	for _, p := range slices.Clone(s.places) {
		lo.drop(p)
	}
}

// untold notes that vmnet has not heard from s by the interface that it has now.
func (lo *local) untold(s *switcher) {
	lo.mu.Lock()
	defer lo.mu.Unlock()
	for _, p := range s.places {
		p.told.Store(0)
	}
}

// known is how many addresses s has, and how many times one came to it from another client.
func (lo *local) known(s *switcher) (places int, moved uint64) {
	lo.mu.Lock()
	defer lo.mu.Unlock()
	return len(s.places), s.taken
}
