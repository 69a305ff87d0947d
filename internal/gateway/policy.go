// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net"
	"net/netip"
	"slices"
)

var loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// target says where a flow to dst leads on the host, and whether it may go there at all. The alias leads to the host's
// loopback; everything else, where there is a way out, to itself. Refused are addresses that mean something else on the host than
// they mean in the guest: the subnet, loopback, link-local, multicast, broadcast and 0.0.0.0/8.
func (p *plan) target(dst netip.AddrPort) (netip.AddrPort, bool) {
	a := dst.Addr()
	if a == p.alias && a.IsValid() {
		return netip.AddrPortFrom(loopback4, dst.Port()), dst.Port() != 0
	}
	if !p.nat || !a.Is4() || dst.Port() == 0 {
		return netip.AddrPort{}, false
	}
	b := a.As4()
	if p.subnet.Contains(a) || a.IsLoopback() || a.IsLinkLocalUnicast() || b[0] == 0 || b[0] >= 224 {
		return netip.AddrPort{}, false
	}
	return dst, true
}

// leadsToPrivate tells whether a connection to dst, which is a target, would end at the private port. All addresses of the host
// lead there if it listens on all: the dialling goroutine asks which these are, so that no other flow waits.
func (p *plan) leadsToPrivate(dst netip.AddrPort) bool {
	at := p.private.Addr().Unmap()
	if !at.IsValid() || dst.Port() != p.private.Port() {
		return false
	}
	if !at.IsUnspecified() {
		return dst.Addr() == at
	}
	return dst.Addr() == loopback4 || isHosts(dst.Addr())
}

// isHosts tells whether a is an address of this host. Where the system does not tell, it is.
func isHosts(a netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addrs, func(x net.Addr) bool {
		n, ok := x.(*net.IPNet)
		return ok && n.IP.Equal(a.AsSlice())
	})
}
