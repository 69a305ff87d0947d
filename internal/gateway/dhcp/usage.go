// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"encoding/binary"
	"net/netip"
)

// Usage is how many addresses there are for any guest, without those that are reserved for one, and how many of them no
// other guest can have now: leased, offered, or found in use by a client that did not ask. It may be asked for at any time.
func (s *Server) Usage() (size, leased int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Elapsed()
	for ip, l := range s.pool.byIP {
		if l.active(now) && s.pool.contains(ip) {
			leased++
		}
	}
	for ip := range s.pool.quarantined {
		if s.pool.inQuarantine(ip, now) && s.pool.byIP[ip] == nil {
			leased++
		}
	}
	return s.pool.size, min(leased, s.pool.size)
}

// countPool is how many addresses just anybody may get, at most as many as leases are remembered.
func (p *pool) countPool() int {
	if !p.first.Is4() || !p.last.Is4() || p.last.Less(p.first) {
		return 0
	}
	first, last := p.first.As4(), p.last.As4()
	n := int(binary.BigEndian.Uint32(last[:])) - int(binary.BigEndian.Uint32(first[:])) + 1
	inside := func(ip netip.Addr) bool { return p.first.Compare(ip) <= 0 && ip.Compare(p.last) <= 0 }
	for ip := range p.reserved {
		if inside(ip) {
			n--
		}
	}
	for ip := range p.fixedTo {
		if inside(ip) && !p.reserved[ip] {
			n--
		}
	}
	return min(n, p.limit)
}
