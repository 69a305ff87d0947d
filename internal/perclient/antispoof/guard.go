// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"encoding/binary"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// Lengths in bytes and numbers of Ethernet.
const (
	ethernetLen = 14

	typeIPv4  = 0x0800
	typeARP   = 0x0806
	typeVLAN  = 0x8100 // IEEE 802.1Q
	typeIPv6  = 0x86dd
	typeQinQ  = 0x88a8 // IEEE 802.1ad
	typeVLAN1 = 0x9100 // the same before there was a standard
	typeVLAN2 = 0x9200
	typeMAC   = 0x88e7 // IEEE 802.1ah, a frame in a frame

	minType = 0x0600 // what is below is the length of an LLC frame
	snap    = 0xaaaa03
)

// A reason is why a frame was refused; zero lets it pass.
type reason uint8

const (
	forgedNothing reason = iota
	forgedMAC            // Ethernet source
	forgedARP            // ARP sender
	forgedIPv4           // IPv4 source
	forgedIPv6           // IPv6 source
	forgedND             // neighbour discovery in another's name, or as a router
	forgedDHCP           // DHCP as a server, or for another
	forgedTag            // a tag or a header that hides what is inside
	malformed            // a header that cannot be read
	reasons
)

var reasonNames = [reasons]string{
	"", "spoofed_mac", "spoofed_arp", "spoofed_ipv4", "spoofed_ipv6", "spoofed_nd", "spoofed_dhcp", "spoofed_tag", "spoofed_malformed",
}

// A Guard decides what one client may send. It implements perclient.Guard: one goroutine at a time calls Filter; ToClient,
// Drops and Close may be called from any.
//
//	unbound --declared, or the first frame--> bound --ACK--> leased --RELEASE, NAK, end of the lease--> bound
//	                                          bound --first address announced or used--> static
type Guard struct {
	reg      *Registry
	id       uint64
	log      *slog.Logger
	declared mac48 // 0: none

	// What the fast path reads. It changes with reg.mu held.
	mac   atomic.Uint64 // mac48
	ip    atomic.Uint32 // ip4
	until atomic.Int64  // end of ip, time.Duration on the registry's clock
	asked atomic.Uint64 // askedKnown and the transaction of the last DHCP request

	ended ip4 // the last lease's, once that has ended; under reg.mu

	// What only Filter's goroutine uses.
	linkLocal uint64 // the lower half of the link-local address that follows from mac
	six       []used // capacity maxIPv6
	next      time.Duration
	warned    uint64 // frames refused when that was last logged

	drops    [reasons]atomic.Uint64
	conflict atomic.Bool // a lease of an address that another client has was logged
}

// used is an address and when it was used last.
type used struct {
	addr ip6
	used time.Duration
}

// askedKnown marks a transaction, so that zero means none.
const askedKnown = 1 << 32

// Guard makes the guard of a client that declares its MAC address, or not (nil). id is what Restore knows it by; no two live
// guards have the same one. log is the client's.
func (r *Registry) Guard(id uint64, declared net.HardwareAddr, log *slog.Logger) *Guard {
	now := r.now()
	r.mu.Lock()
	g := r.pending[id]
	delete(r.pending, id)
	if g == nil {
		g = r.newGuard(id)
	}
	g.log = log
	r.guards[id] = g
	r.mu.Unlock()
	if len(declared) == 6 {
		g.declared = load48(declared)
	}
	if g.declared != 0 && g.mac.Load() == 0 {
		g.bind(g.declared, now)
	}
	return g
}

func (r *Registry) newGuard(id uint64) *Guard {
	return &Guard{reg: r, id: id, six: make([]used, 0, maxIPv6)}
}

// Filter calls pass with the frames of b that the client may send, in order, as runs of b. b is borrowed until it returns.
func (g *Guard) Filter(b frame.Batch, pass func(frame.Batch)) {
	now := g.reg.now()
	b.Runs(func(f []byte) bool {
		r := g.check(f, now)
		if r != forgedNothing {
			g.refuse(r, f, now)
		}
		return r == forgedNothing
	}, pass)
}

// ToClient looks at what goes to the client: the leases that its DHCP server gives it, and what strangers say of themselves.
func (g *Guard) ToClient(b frame.Batch) {
	n := g.reg.network.Load()
	strangers := n != nil && n.strangers
	it := b.Iter()
	for it.Next() {
		f := it.Frame()
		if len(f) >= ethernetLen+ipv4Len+udpLen && f[12] == typeIPv4>>8 && f[13] == typeIPv4&0xff && f[23] == protoUDP {
			g.reply(f[ethernetLen:], load48(f[6:]))
		} else if strangers && len(f) >= ethernetLen {
			g.reg.outside(f)
		}
	}
}

// check decides about one frame.
func (g *Guard) check(f []byte, now time.Duration) reason {
	if len(f) < ethernetLen {
		return malformed
	}
	src := load48(f[6:])
	if mac := mac48(g.mac.Load()); (src != mac || mac == 0) && (mac != 0 || !g.bind(src, now)) {
		return forgedMAC
	}
	switch t := binary.BigEndian.Uint16(f[12:]); t {
	case typeIPv4:
		return g.ipv4(f[ethernetLen:], now)
	case typeIPv6:
		return g.ipv6(f[ethernetLen:], now)
	case typeARP:
		return g.arp(f[ethernetLen:], now)
	case typeVLAN, typeQinQ, typeVLAN1, typeVLAN2, typeMAC:
		return forgedTag
	default:
		if t < minType {
			return llc(f[ethernetLen:])
		}
	}
	return forgedNothing
}

// llc refuses IEEE 802.2 frames that hold an Ethernet type (RFC 1042): Windows takes IP and ARP from them.
func llc(p []byte) reason {
	if len(p) >= 3 && uint32(p[0])<<16|uint32(p[1])<<8|uint32(p[2]) == snap {
		return forgedTag
	}
	return forgedNothing
}

// holds tells whether ip is the client's address, or becomes it.
func (g *Guard) holds(ip ip4, now time.Duration) bool {
	if ip == ip4(g.ip.Load()) && ip != 0 && int64(now) < g.until.Load() {
		return true
	}
	return g.claim(ip, now)
}

// arp checks an ARP packet (RFC 826):
//
//	0         2           4      5      6    8          14         18         24        28
//	+---------+-----------+------+------+----+----------+----------+----------+---------+
//	| hardware| protocol  | hlen | plen | op | sender   | sender   | target   | target  |
//	| 1       | 0800      | 6    | 4    |    | hardware | protocol | hardware | protocol|
//	+---------+-----------+------+------+----+----------+----------+----------+---------+
func (g *Guard) arp(p []byte, now time.Duration) reason {
	const ethernetIPv4 = 0x0001_0800_0604
	if len(p) < 28 || binary.BigEndian.Uint64(p)>>16 != ethernetIPv4 {
		return malformed // some receivers take other hardware types for Ethernet
	}
	if load48(p[8:]) != mac48(g.mac.Load()) {
		return forgedARP
	}
	sender := load4(p[14:])
	switch op := binary.BigEndian.Uint16(p[6:]); {
	case op != 1 && op != 2:
		return malformed
	case sender == 0 && op == 1: // a probe (RFC 5227)
		return forgedNothing
	case !g.holds(sender, now):
		return forgedARP
	}
	return forgedNothing
}

// Drops are the frames refused: all of them, and for the log that and each reason.
func (g *Guard) Drops() (sum uint64, args []any) {
	for r := forgedNothing + 1; r < reasons; r++ {
		if n := g.drops[r].Load(); n > 0 {
			sum += n
			args = append(args, reasonNames[r], n)
		}
	}
	if sum > 0 {
		args = append([]any{"drop_spoofed", sum}, args...)
	}
	return sum, args
}
