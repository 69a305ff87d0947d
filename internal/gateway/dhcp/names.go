// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

const (
	// maxLabel is the longest label of a name in bytes (RFC 1035).
	maxLabel = 63
	// maxNumber is the highest number behind a name that several guests call themselves: as many as a daemon has clients.
	// Guests beyond have no name.
	maxNumber = 256
)

// notGuests are names under which a guest with vmnet.internal in its search list expects something else than another guest:
// itself, the host, and what a browser or Windows would take its proxy or tunnel from.
var notGuests = map[string]bool{
	"localhost": true, "gateway": true, "host": true, "wpad": true, "isatap": true,
}

// nameFor gives l the name by which others find it: what the guest calls itself in lower case, or that with a number from 2 on
// while another guest with a lease has it. First come, first served; a guest that has a name keeps it.
func (p *pool) nameFor(l *lease, now time.Duration) {
	base, held := strings.ToLower(l.hostname), map[string]bool{}
	for _, other := range p.byMAC {
		if other != l && other.active(now) {
			held[other.name] = true
		}
	}
	if l.name != "" && follows(l.name, base) && !held[l.name] {
		return
	}
	l.name = ""
	if base == "" || notGuests[base] {
		return
	}
	for i := 1; i <= maxNumber; i++ {
		if name := numbered(base, i); !held[name] && !p.namesTaken[name] && !notGuests[name] {
			l.name = name
			return
		}
	}
}

// numbered is base for the first guest that calls itself so, and base-2 and so on for others.
func numbered(base string, i int) string {
	if i == 1 {
		return base
	}
	suffix := "-" + strconv.Itoa(i)
	if len(base)+len(suffix) > maxLabel {
		base = strings.TrimRight(base[:maxLabel-len(suffix)], "-")
	}
	return base + suffix
}

// follows tells whether name is one that numbered makes of base.
func follows(name, base string) bool {
	if name == base {
		return true
	}
	i := strings.LastIndexByte(name, '-')
	n, err := strconv.Atoi(name[i+1:])
	return err == nil && n > 1 && n <= maxNumber && name == numbered(base, n)
}

// Lookup is the address of the guest that has that name, in lower case and without a domain.
func (s *Server) Lookup(name string) (netip.Addr, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Elapsed()
	for _, l := range s.pool.byMAC {
		if l.name == name && l.leased(now) {
			return l.ip, true
		}
	}
	return netip.Addr{}, false
}

// NameOf is the name of the guest that has ip, "" if there is none.
func (s *Server) NameOf(ip netip.Addr) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.pool.byIP[ip]
	if l == nil || !l.leased(s.cfg.Elapsed()) {
		return ""
	}
	return l.name
}
