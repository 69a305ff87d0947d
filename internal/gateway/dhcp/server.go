// SPDX-License-Identifier: Apache-2.0

// Package dhcp is the DHCP server (RFC 2131) of the embedded network. It sees messages, not frames: the
// gateway hands a message in with its source and sends the reply. The codec is insomniacslk/dhcp's, the address pool is ours.
//
// An address belongs to a MAC address: the same NIC gets the same address from its boot loader and its operating system,
// whatever client identifiers they use, and across restarts of the server: its owner is told of all leases and gives them back.
package dhcp

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

const (
	// LeaseTime is how long an address is leased; a client renews after half of it and asks any server after 7/8.
	LeaseTime = time.Hour
	// offerTime is how long an offered address is held for the client that was offered it.
	offerTime = 30 * time.Second
	// quarantineTime is how long an address that a client declined, because another host uses it, is not offered.
	quarantineTime = 10 * time.Minute
	// maxPerPort is how many addresses are leased to the NICs behind one port of the bridge.
	maxPerPort = 16
	// maxLeases bounds what is remembered, expired leases included.
	maxLeases = 8192

	t1 = LeaseTime / 2
	t2 = LeaseTime * 7 / 8
)

// A Lease is an address that a client has or had.
type Lease struct {
	MAC      net.HardwareAddr `json:"mac"`
	IP       netip.Addr       `json:"ip"`
	Left     time.Duration    `json:"left"` // until it ends; negative for an address that is only remembered
	Hostname string           `json:"hostname,omitempty"`
	Name     string           `json:"name,omitempty"` // by which Lookup finds it
}

// Config sets up a Server.
type Config struct {
	Subnet  netip.Prefix
	Gateway netip.Addr // this server
	// First and Last are the ends of the pool, both included. Reserved addresses are never leased.
	First, Last netip.Addr
	Reserved    []netip.Addr
	// Fixed are addresses of Subnet, in the pool or not, that belong to one client each and are never leased to others.
	Fixed  map[[6]byte]netip.Addr
	Router bool // tell guests to use Gateway as their default route
	DNS    bool // tell guests to use Gateway as their name server
	MTU    uint16
	// Domain is where guests are told to look up names without a dot; empty = nowhere.
	Domain string
	// NamesTaken are names that Lookup never has for a guest, in lower case.
	NamesTaken map[string]bool
	// Leases are those of the server before this one.
	Leases []Lease
	// Changed is told of each lease that is granted, renewed, released or declined, before the client gets its answer.
	Changed func(Lease)
	Log     *slog.Logger
	// Elapsed is a clock that never jumps, nil = the system's monotonic one. Leases run on it.
	Elapsed func() time.Duration
}

// A reply is a DHCP message to send, from the gateway's port 67.
type reply struct {
	Payload []byte
	MAC     net.HardwareAddr // destination, broadcast included
	To      netip.AddrPort   // destination, broadcast included
}

// Counters count messages that were not answered, by reason.
type Counters struct {
	Malformed uint64 // not a DHCP request of an Ethernet client
	Foreign   uint64 // for a client whose lease another port has, or through a relay of another network
	PortFull  uint64 // maxPerPort addresses are leased behind that port
	PoolFull  uint64 // no address left
}

// A Server leases addresses. Its methods may be called from several goroutines.
type Server struct {
	cfg Config

	mu    sync.Mutex
	pool  *pool
	stats Counters
}

var broadcastMAC = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// New makes a server with the leases of the one before.
func New(c Config) *Server {
	if c.Elapsed == nil {
		start := time.Now()
		c.Elapsed = func() time.Duration { return time.Since(start) }
	}
	s := &Server{cfg: c, pool: newPool(c)}
	s.restore(c.Leases)
	return s
}

// restore takes over leases, but for those that have been reserved for others meanwhile. One that has ended is remembered all the
// same, so a clock that was wrong costs no guest its address; one that is longer than a lease is cut to one. A name that a record has
// now is another one when the guest renews.
func (s *Server) restore(leases []Lease) {
	p, now := s.pool, s.cfg.Elapsed()
	for _, l := range leases {
		if len(l.MAC) != 6 || len(p.byMAC) >= p.limit {
			continue
		}
		mac := mac48(l.MAC)
		if !p.permits(l.IP, mac) || p.byMAC[mac] != nil || p.byIP[l.IP] != nil {
			continue
		}
		r := &lease{mac: mac, ip: l.IP, bound: true, until: now + min(l.Left, LeaseTime), hostname: l.Hostname}
		if !p.namesTaken[l.Name] {
			r.name = l.Name
		}
		p.insert(r)
	}
}

// tellChange tells of a lease as it is now. The caller holds mu.
func (s *Server) tellChange(l *lease) {
	s.cfg.Changed(Lease{MAC: l.mac.hardware(), IP: l.ip, Left: l.until - s.cfg.Elapsed(), Hostname: l.hostname, Name: l.name})
}

// Stats are the counters; how many addresses there are for any guest, without those that are reserved for one; and how many of them no
// other guest can have now: leased, offered, or found in use by a client that did not ask.
func (s *Server) Stats() (c Counters, size, leased int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Elapsed()
	for ip, l := range s.pool.byIP {
		if l.active(now) && s.pool.contains(ip) {
			leased++
		}
	}
	return s.stats, s.pool.size, min(leased, s.pool.size)
}

// Seen tells that a client at a port sends from ip: it is there, though it has not asked for anything since it came back.
func (s *Server) Seen(port uint64, mac [6]byte, ip netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.pool.byIP[ip]; l != nil && l.mac == mac && l.port == 0 {
		l.port = port
	}
}

// PortGone tells that a port of the bridge was closed. Its leases stay for the guest that comes back with another port, until another
// guest would get none.
func (s *Server) PortGone(port uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.pool.byIP {
		if l.port == port {
			l.port = 0
		}
	}
}

// Handle takes the message of a frame from the given port of the bridge, whose Ethernet source was src, and returns the
// answer if there is one, which may have src in it. It borrows payload until it returns. The client is the one that the message
// names: src is another where a relay has passed it on, or a bridge that puts its own address in place of those behind it.
func (s *Server) Handle(port uint64, src net.HardwareAddr, payload []byte) (reply, bool) {
	m, err := dhcpv4.FromBytes(payload)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || m.OpCode != dhcpv4.OpcodeBootRequest || m.HWType != iana.HWTypeEthernet || len(m.ClientHWAddr) != 6 {
		s.stats.Malformed++
		return reply{}, false
	}
	q := query{Server: s, m: m, mac: mac48(m.ClientHWAddr), src: src, relay: addr(m.GatewayIPAddr), port: port, now: s.cfg.Elapsed()}
	if q.foreign() {
		s.stats.Foreign++
		return reply{}, false
	}
	switch m.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		return q.discover()
	case dhcpv4.MessageTypeRequest:
		return q.request()
	case dhcpv4.MessageTypeDecline:
		q.decline()
	case dhcpv4.MessageTypeRelease:
		q.release()
	case dhcpv4.MessageTypeInform:
		return q.inform()
	default:
		s.stats.Malformed++
	}
	return reply{}, false
}

// addr is an address field of a message, the zero Addr when it is empty.
func addr(ip net.IP) netip.Addr {
	a, ok := netip.AddrFromSlice(ip)
	if !ok || a.Unmap().IsUnspecified() {
		return netip.Addr{}
	}
	return a.Unmap()
}
