// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"net"
	"net/netip"
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

func mask4(bits int) net.IPMask { return net.CIDRMask(bits, 32) }
