// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"time"
)

// A Usage is what the server has given away.
type Usage struct {
	// Size is how many addresses there are for just anybody: without those that are reserved for somebody.
	Size int
	// Leased is how many of them nobody else can have now: leased, offered, or found in use by somebody who did not ask.
	Leased int
	// Leases are those that have not ended, by address, those of reserved addresses included.
	Leases []Lease
}

// A Lease is an address that somebody has now.
type Lease struct {
	MAC      net.HardwareAddr
	IP       netip.Addr
	Hostname string // as the guest calls itself; letters, digits and hyphens
	Name     string // by which Lookup finds it
	Expires  time.Time
	Reserved bool // nobody else ever gets the address
}

// Usage may be asked for at any time.
func (s *Server) Usage() Usage {
	u := s.usage()
	slices.SortFunc(u.Leases, func(a, b Lease) int { return a.IP.Compare(b.IP) })
	return u
}

func (s *Server) usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	wall, now := s.cfg.Wall().Round(0), s.cfg.Elapsed()
	u := Usage{Size: s.pool.size}
	for ip, l := range s.pool.byIP {
		if l.active(now) && s.pool.contains(ip) {
			u.Leased++
		}
		if !l.leased(now) {
			continue
		}
		_, reserved := s.pool.fixedTo[ip]
		u.Leases = append(u.Leases, Lease{
			MAC: l.mac.hardware(), IP: ip, Hostname: l.hostname, Name: l.name, Expires: wall.Add(l.expires - now), Reserved: reserved,
		})
	}
	for ip := range s.pool.quarantined {
		if s.pool.inQuarantine(ip, now) && s.pool.byIP[ip] == nil {
			u.Leased++
		}
	}
	u.Leased = min(u.Leased, u.Size)
	return u
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
