// SPDX-License-Identifier: Apache-2.0

// Package gateway is the gateway of a network: DHCP, DNS, and a TCP/IP stack with the flows to the outside and to the host. It is a
// client of the network, in a process of its own, and knows of it what its Config says and no more.
//
//	daemon ══ pair of sockets ══ serve ── handle ┬─ DHCP
//	              ^                              ├─ DNS
//	              └──────── outlet ──────────────┴─ TCP/IP stack: ARP, ping, flows to the outside and to the host
//
// One goroutine reads the pair and handles what it reads. It never waits for the other direction: what does not fit the outlet is
// dropped.
//
// The stack's (gVisor's) work is per packet, so it sees few and large ones: TCP segments of a chunk that follow each other are joined
// (coalesce.go), and what it sends is cut into frames behind it (outlet.go).
//
// In shared mode guests reach the outside through the gateway: TCP and UDP flows end in the stack and are opened again by
// the host (NAT). The host's loopback is reached through an alias, the last usable address of the subnet, which is also called
// host.internal, unless that is disabled. Addresses that mean something else on the host than in the guest are refused. Ports of
// the host that are forwarded lead the other way; guests see the gateway as the other end. Their sockets are the daemon's, which
// passes them, so that they outlive a gateway.
//
// Nothing here recovers from a panic: the process is what it costs, and the daemon starts another one. And nothing here is closed at
// the end: the system does that when the process has gone, connections to the outside with a reset.
package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway/dhcp"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway/dns"
)

// A gateway is one life of a gateway, on one pair of sockets.
type gateway struct {
	tune tuning
	log  *slog.Logger // to the daemon
	pair *Pair
	out  *outlet

	session uint64 // that the next frames come from
	handled int    // frames, since KindHandled
	joined  coalescer
	drops   drops
	awake   awake

	// What the daemon has sent so far, and from KindStart on what was made of it.
	cfg     Config
	leases  []dhcp.Lease
	plan    Plan
	engine  *engine
	dhcp    *dhcp.Server // nil without DHCP
	dns     *dns.Server  // nil without a name server
	started bool
	begins  map[uint64]*rate.Limiter // what each session may begin: flows and questions to the name server
	trim    *time.Timer              // gives back the memory of clients that have gone
}

// How many flows a session may begin in a second, and at once. One takes about 60 µs of processor time, which others wait for.
const beginRate, beginBurst = 1000, 128

// mayBegin counts what a session begins, and tells whether there is still room for it. It runs inside handle.
func (g *gateway) mayBegin(session uint64) bool {
	l := g.begins[session]
	if l == nil {
		l = rate.NewLimiter(beginRate, beginBurst)
		g.begins[session] = l
	}
	if l.Allow() {
		return true
	}
	g.drops.unwanted.Add(1)
	return false
}

// tuning is what tests change.
type tuning struct {
	dialTimeout time.Duration
	udpIdle     time.Duration
	returnTime  time.Duration
	dial        func(ctx context.Context, network, address string) (net.Conn, error)
}

// drops count the frames that the gateway did not take or could not send, by reason.
type drops struct {
	unwanted  atomic.Uint64 // not for the gateway, or a protocol it does not speak
	malformed atomic.Uint64 // lengths or addresses that cannot be
	outFull   atomic.Uint64 // too much waits towards the guests
}

// stats are what the gateway counts.
type stats struct {
	Unwanted, Malformed, OutFull uint64 // frames that were dropped, by reason
	TCPFlows, UDPFlows           int    // open now
}

// start makes the servers and the stack of what the daemon has sent.
func (g *gateway) start() (err error) {
	if g.plan, err = g.cfg.Plan(); err != nil {
		return err
	}
	g.out.max = g.plan.MaxFrame() // nothing is sent before
	if g.plan.DHCPStart.IsValid() {
		g.dhcp = dhcp.New(g.dhcpConfig(g.leases))
	}
	if g.plan.dns {
		g.dns = dns.New(g.dnsConfig())
	}
	if g.engine, err = newEngine(g); err != nil {
		return err
	}
	g.started = true
	return nil
}

func (g *gateway) handle(src uint64, f []byte) {
	if g.joined.join(f) {
		return
	}
	v := g.plan.inspect(f)
	if g.dhcp != nil && (v == toStack || v == toDNS) {
		at := atAddress
		if header.Ethernet(f).Type() == header.ARPProtocolNumber {
			at = frame.MinLen + 14
		}
		g.dhcp.Seen(src, [6]byte(f[6:12]), netip.AddrFrom4([4]byte(f[at:])))
	}
	switch v {
	case dropMalformed:
		g.drops.malformed.Add(1)
	case dropUnwanted:
		g.drops.unwanted.Add(1)
	case toDHCP:
		g.handleDHCP(src, f)
	case toDNS:
		g.handleDNS(src, f)
	case toStack:
		g.toStack(src, f)
	}
}

func (g *gateway) handleDHCP(src uint64, f []byte) {
	if g.dhcp == nil {
		g.drops.unwanted.Add(1)
		return
	}
	u := header.UDP(header.IPv4(f[frame.MinLen:]).Payload())
	if r, ok := g.dhcp.Handle(src, f[6:12], u[header.UDPMinimumSize:u.Length()]); ok {
		g.sendUDP(r.MAC, portDHCPServer, r.To, r.Payload)
	}
}

func (g *gateway) handleDNS(src uint64, f []byte) {
	if !g.mayBegin(src) {
		return
	}
	ip := header.IPv4(f[frame.MinLen:])
	u := header.UDP(ip.Payload())
	mac, from := bytes.Clone(f[6:12]), addrPort(ip.SourceAddress(), u.SourcePort())
	g.dns.HandleUDP(src, u[header.UDPMinimumSize:u.Length()], g.plan.maxDatagram(), func(answer []byte) {
		g.sendUDP(mac, portDNS, from, answer)
	})
}

// maxDatagram is the longest UDP payload that the gateway's own services send, in bytes: what fits the MTU.
func (p *Plan) maxDatagram() int {
	return min(p.MTU, defaultMTU) - header.IPv4MinimumSize - header.UDPMinimumSize
}

// sendUDP sends a datagram of the gateway's own services.
func (g *gateway) sendUDP(mac net.HardwareAddr, port uint16, dst netip.AddrPort, payload []byte) {
	if len(payload) > g.plan.maxDatagram() {
		g.drops.malformed.Add(1)
		return
	}
	var h [frame.MinLen + header.IPv4MinimumSize + header.UDPMinimumSize]byte
	header.Ethernet(h[:]).Encode(&header.EthernetFields{
		SrcAddr: tcpip.LinkAddress(g.plan.MAC), DstAddr: tcpip.LinkAddress(mac), Type: header.IPv4ProtocolNumber,
	})
	ip, u := header.IPv4(h[frame.MinLen:]), header.UDP(h[frame.MinLen+header.IPv4MinimumSize:])
	from, to := tcpip.AddrFrom4(g.plan.Gateway.As4()), tcpip.AddrFrom4(dst.Addr().As4())
	ip.Encode(&header.IPv4Fields{
		TotalLength: uint16(len(h) - frame.MinLen + len(payload)),
		TTL:         64, Protocol: uint8(header.UDPProtocolNumber), SrcAddr: from, DstAddr: to,
	})
	ip.SetChecksum(^ip.CalculateChecksum())
	length := uint16(header.UDPMinimumSize + len(payload))
	u.Encode(&header.UDPFields{SrcPort: port, DstPort: dst.Port(), Length: length})
	sum := header.PseudoHeaderChecksum(header.UDPProtocolNumber, from, to, length)
	sum = ^u.CalculateChecksum(checksum.Checksum(payload, sum))
	if sum == 0 {
		sum = 0xffff // RFC 768: 0 means no checksum
	}
	u.SetChecksum(sum)
	g.out.put(len(h)+len(payload), h[:], payload)
}
