// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"encoding/binary"
	"fmt"
	"time"
)

// warnEvery is how often a client's forgeries are logged.
const warnEvery = time.Minute

// refuse counts f, which is not let through, and tells of it now and then.
func (g *Guard) refuse(r reason, f []byte, now time.Duration) {
	g.drops[r].Add(1)
	if now < g.next {
		return
	}
	g.next = now + warnEvery
	sum, _ := g.Drops()
	frames := sum - g.warned
	g.warned = sum
	g.log.Warn("frames with forged addresses are dropped (--anti-spoof)",
		"forged", g.describe(r, f), "mac", mac48(g.mac.Load()).hardware().String(), "ip", g.address(), "frames", frames)
}

// warnConflict tells, once, that the DHCP server gave the client an address that it cannot have.
func (g *Guard) warnConflict(ip ip4) {
	if g.conflict.Swap(true) {
		return
	}
	g.log.Warn("the client may not use the address that DHCP gave it: another client uses it without a lease, or it belongs to the network (--anti-spoof); look for a guest with a static address",
		"mac", mac48(g.mac.Load()).hardware().String(), "ip", ip.addr().String())
}

// address is the client's IPv4 address for the log.
func (g *Guard) address() string {
	if ip := ip4(g.ip.Load()); ip != 0 {
		return ip.addr().String()
	}
	return "none"
}

// describe says what is wrong with f, in at most a line.
func (g *Guard) describe(r reason, f []byte) string {
	if r == forgedMAC {
		return fmt.Sprintf("source address %s", load48(f[6:]).hardware())
	}
	p := f[min(len(f), ethernetLen):]
	switch {
	case r == forgedARP && len(p) >= 28:
		return fmt.Sprintf("ARP: %s is at %s", load4(p[14:]).addr(), load48(p[8:]).hardware())
	case r == forgedIPv4 && len(p) >= ipv4Len:
		return fmt.Sprintf("IPv4 source %s", load4(p[12:]).addr())
	case r == forgedIPv6 && len(p) >= ipv6Len:
		return fmt.Sprintf("IPv6 source %s", load6(p[8:]).addr())
	case r == forgedND && len(p) >= ipv6Len:
		return fmt.Sprintf("IPv6 neighbour discovery or router's message from %s", load6(p[8:]).addr())
	case r == forgedDHCP:
		return "DHCP as a server or for another client"
	case r == forgedTag:
		return fmt.Sprintf("a tag or encapsulation, type %#04x", binary.BigEndian.Uint16(f[12:]))
	}
	return "a header that cannot be read"
}
