// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"encoding/binary"
	"time"
)

const (
	// strangerTime is how long an address is a stranger's after that was last seen to use it.
	strangerTime = 10 * time.Minute
	// maxStrangers bounds what is remembered of them. Who is not is not protected.
	maxStrangers = 4096
)

// A stranger is a station that is no client of the daemon: the host, its router, the guests of other programs. Without a lease
// no client gets an address that one uses. Nothing that a stranger says takes an address from a client.
type stranger struct {
	mac   mac48
	until time.Duration
}

// mapped is an IPv4 address as an IPv6 one, so that both have one table.
func (a ip4) mapped() ip6 { return ip6{0, 0xffff<<32 | uint64(a)} }

// outside looks at a frame on its way to a client for the addresses of strangers: ARP, router advertisements and neighbour
// discovery.
func (r *Registry) outside(f []byte) {
	switch binary.BigEndian.Uint16(f[12:]) {
	case typeARP:
		if p := f[ethernetLen:]; len(p) >= 28 && load48(f[6:]) == load48(p[8:]) && load4(p[14:]) != 0 {
			r.stranger(load4(p[14:]).mapped(), load48(f[6:]))
		}
	case typeIPv6:
		p := f[ethernetLen:]
		if len(p) < ipv6Len+24 || p[6] != nextICMPv6 {
			return
		}
		switch src := load6(p[8:]); p[ipv6Len] {
		case icmpRouterAdvertisement, icmpNeighbourSolicitation:
			if src.isHost() {
				r.stranger(src, load48(f[6:]))
			}
		case icmpNeighbourAdvertisement:
			if target := load6(p[ipv6Len+8:]); target.isHost() {
				r.stranger(target, load48(f[6:]))
			}
		}
	}
}

// stranger notes that the station with mac uses a, unless it is a client.
func (r *Registry) stranger(a ip6, mac mac48) {
	now := r.now()
	// Broadcasts come to each client, mostly one right after the other.
	key := (a.hi^a.lo)*0x9e3779b97f4a7c15 ^ uint64(mac) ^ uint64(now/time.Second)<<48 | 1
	if r.lastStranger.Swap(key) == key {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.macs[mac] != nil {
		return
	}
	if _, known := r.strangers[a]; !known && len(r.strangers) >= maxStrangers {
		if now < r.swept+time.Second {
			return
		}
		r.swept = now
		for k, s := range r.strangers {
			if s.until <= now {
				delete(r.strangers, k)
			}
		}
		if len(r.strangers) >= maxStrangers {
			return
		}
	}
	r.strangers[a] = stranger{mac, after(now, strangerTime)}
}

// foreign tells whether a is a stranger's, not mac's own from the time before its client came. The caller holds mu.
func (r *Registry) foreign(a ip6, mac mac48, now time.Duration) bool {
	s, ok := r.strangers[a]
	return ok && now < s.until && s.mac != mac
}
