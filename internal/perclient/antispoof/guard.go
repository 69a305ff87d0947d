// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
)

// Types of Ethernet, beside watch's.
const (
	typeVLAN  = 0x8100 // IEEE 802.1Q
	typeIPv6  = 0x86dd
	typeQinQ  = 0x88a8 // IEEE 802.1ad
	typeVLAN1 = 0x9100 // the same before there was a standard
	typeVLAN2 = 0x9200
	typeMAC   = 0x88e7 // IEEE 802.1ah, a frame in a frame

	minType = 0x0600 // what is below is the length of an LLC frame
	snap    = 0xaaaa03
)

// warnEvery is how often a client's forgeries are logged.
const warnEvery = time.Minute

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
	log      *slog.Logger
	declared watch.MAC

	// What the fast path reads. It changes with reg.mu held.
	number atomic.Uint64           // the MAC
	own    atomic.Pointer[holding] // the IPv4 address, if any; not leased: static
	asked  atomic.Uint64           // askedKnown and the transaction of the last DHCP request

	ended netip.Addr // the last lease's, once that has ended; under reg.mu

	// What only Filter's goroutine uses.
	linkLocal netip.Addr // what follows from the MAC
	six       []used     // capacity maxIPv6
	next      time.Duration
	warned    uint64 // frames refused when that was last logged

	drops    [reasons]atomic.Uint64
	conflict atomic.Bool // a lease of an address that another client has was logged
}

// used is an address and when it was used last.
type used struct {
	addr netip.Addr
	used time.Duration
}

// askedKnown marks a transaction, so that zero means none.
const askedKnown = 1 << 32

// Guard makes the guard of a client that declares its MAC address, or not (nil). With what another one's Save returned it goes on
// where that was. log is the client's.
func (r *Registry) Guard(declared net.HardwareAddr, log *slog.Logger, saved []byte) *Guard {
	g := &Guard{reg: r, log: log, declared: watch.MACOf(declared), six: make([]used, 0, maxIPv6)}
	switch {
	case len(saved) > 0: // another client, which is restored later, may have what it declares
		if err := g.restore(saved); err != nil {
			log.Warn("the client has to show its addresses again (--anti-spoof)", "error", err)
		}
	case g.declared != 0:
		g.bind(g.declared, r.now())
	}
	return g
}

func (g *Guard) mac() watch.MAC { return watch.MAC(g.number.Load()) }

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

// check decides about one frame.
func (g *Guard) check(f []byte, now time.Duration) reason {
	if len(f) < watch.EthernetLen {
		return malformed
	}
	src := watch.MACOf(f[6:])
	if mac := g.mac(); (src != mac || mac == 0) && (mac != 0 || !g.bind(src, now)) {
		return forgedMAC
	}
	switch t := binary.BigEndian.Uint16(f[12:]); t {
	case watch.TypeIPv4:
		return g.ipv4(f, now)
	case typeIPv6:
		return g.ipv6(f[watch.EthernetLen:], now)
	case watch.TypeARP:
		return g.arp(f, now)
	case typeVLAN, typeQinQ, typeVLAN1, typeVLAN2, typeMAC:
		return forgedTag
	default:
		// IEEE 802.2 frames may hold an Ethernet type (RFC 1042): Windows takes IP and ARP from them.
		if t < minType && len(f) >= 18 && binary.BigEndian.Uint32(f[watch.EthernetLen:])>>8 == snap {
			return forgedTag
		}
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

// refuse counts f, which is not let through, and tells of it now and then.
func (g *Guard) refuse(r reason, f []byte, now time.Duration) {
	g.drops[r].Add(1)
	if now < g.next {
		return
	}
	g.next = now + warnEvery
	sum, _ := g.Drops()
	ip := "none"
	if own := g.own.Load(); own != nil {
		ip = own.ip.String()
	}
	g.log.Warn("frames with forged addresses are dropped (--anti-spoof)",
		"forged", describe(r, f), "mac", g.mac().Hardware().String(), "ip", ip, "frames", sum-g.warned)
	g.warned = sum
}

// describe says what is wrong with f, in at most a line. But for one that cannot be read it has all headers that the reason is about.
func describe(r reason, f []byte) string {
	switch r {
	case forgedMAC:
		return "source address " + watch.MACOf(f[6:]).Hardware().String()
	case forgedARP:
		a, _ := watch.ParseARP(f)
		return fmt.Sprintf("ARP: %s is at %s", a.Sender, a.MAC.Hardware())
	case forgedIPv4:
		return fmt.Sprintf("IPv4 source %s", netip.AddrFrom4([4]byte(f[26:])))
	case forgedIPv6:
		return fmt.Sprintf("IPv6 source %s", ip6(f[22:]))
	case forgedND:
		return fmt.Sprintf("IPv6 neighbour discovery or router's message from %s", ip6(f[22:]))
	case forgedDHCP:
		return "DHCP as a server or for another client"
	case forgedTag:
		return fmt.Sprintf("a tag or encapsulation, type %#04x", binary.BigEndian.Uint16(f[12:]))
	}
	return "a header that cannot be read"
}

// A saved is what a client holds besides its lease, for the next image of the process.
type saved struct {
	MAC    net.HardwareAddr  `json:"mac,omitempty"`
	Static netip.Addr        `json:"static,omitzero"` // without a lease
	Ended  netip.Addr        `json:"ended,omitzero"`
	IPv6   []netip.Addr      `json:"ipv6,omitempty"`
	Asked  uint64            `json:"asked,omitempty"`
	Drops  map[string]uint64 `json:"drops,omitempty"`
}

// Save is what the next image makes a Guard of. It is called when nothing else is called any more.
func (g *Guard) Save() []byte {
	g.reg.mu.Lock()
	defer g.reg.mu.Unlock()
	v := saved{MAC: g.mac().Hardware(), Ended: g.ended, Asked: g.asked.Load(), Drops: map[string]uint64{}}
	if own := g.own.Load(); own != nil && !own.leased {
		v.Static = own.ip
	}
	for _, u := range g.six {
		v.IPv6 = append(v.IPv6, u.addr)
	}
	for i, name := range reasonNames {
		if n := g.drops[i].Load(); n > 0 {
			v.Drops[name] = n
		}
	}
	b, _ := json.Marshal(v) // all of it can be
	return b
}

// restore has g, which is new, hold what Save told. Its lease it has with its first frame, unless another client has the address
// without one.
func (g *Guard) restore(text []byte) error {
	var v saved
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("restore a client's addresses: %w", err)
	}
	r, mac := g.reg, watch.MACOf(v.MAC)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(v.IPv6) > maxIPv6:
		return fmt.Errorf("it has %d IPv6 addresses", len(v.IPv6))
	case mac != 0 && (!mac.IsStation() || r.macs[mac] != nil):
		return fmt.Errorf("%s is another client's, or none", v.MAC)
	}
	g.asked.Store(v.Asked)
	g.ended = v.Ended
	for i, name := range reasonNames {
		g.drops[i].Store(v.Drops[name])
	}
	if mac == 0 {
		return nil
	}
	r.give(g, mac)
	if v.Static.Is4() && r.used[v.Static] == nil {
		r.used[v.Static] = g
		g.own.Store(&holding{ip: v.Static, mac: mac, until: watch.Forever})
	}
	for _, a := range v.IPv6 {
		if a.Is6() && r.used[a] == nil {
			r.used[a] = g
			g.six = append(g.six, used{a, r.now()})
		}
	}
	return nil
}
