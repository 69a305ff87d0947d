// SPDX-License-Identifier: Apache-2.0

package fakehost

import (
	"encoding/binary"
	"hash/fnv"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
)

const (
	// maxLeases bounds what is remembered.
	maxLeases = 4096
	// offerTime is how long an offered address waits for its client.
	offerTime = 30 * time.Second
)

var (
	broadcastMAC = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	broadcastIP  = netip.AddrFrom4([4]byte{255, 255, 255, 255})
)

type mac48 [6]byte

// A lease is an address that has been offered or given to a client. It is remembered until somebody else needs it.
type lease struct {
	ip      netip.Addr
	expires time.Time
}

// server leases addresses: the same one to the same MAC address as long as possible. It has its own pool and not
// usernet's, so that the one can be tested against the other. One goroutine uses it.
type server struct {
	opts     *Options
	last     netip.Addr
	reserved map[mac48]netip.Addr
	leases   map[mac48]*lease
	owners   map[netip.Addr]mac48
	declined map[netip.Addr]bool // somebody uses it without a lease
	now      func() time.Time
}

func newServer(o *Options) *server {
	s := &server{
		opts: o, last: o.DHCPEnd,
		reserved: map[mac48]netip.Addr{},
		leases:   map[mac48]*lease{},
		owners:   map[netip.Addr]mac48{},
		declined: map[netip.Addr]bool{},
		now:      time.Now,
	}
	for ip, n := o.DHCPStart, 1; ip.IsValid() && ip.Less(o.DHCPEnd); ip, n = ip.Next(), n+1 {
		if n == maxLeases {
			s.last = ip
			break
		}
	}
	for _, r := range o.Reservations {
		s.reserved[mac48(r.MAC)] = r.Addr
		s.owners[r.Addr] = mac48(r.MAC)
	}
	return s
}

// usable tells whether ip may be leased to mac now.
func (s *server) usable(ip netip.Addr, mac mac48) bool {
	if r, ok := s.reserved[mac]; ok {
		return ip == r
	}
	if ip.Less(s.opts.DHCPStart) || s.last.Less(ip) || ip == s.opts.Gateway || ip == broadcastOf(s.opts.Subnet) || s.declined[ip] {
		return false
	}
	owner, ok := s.owners[ip]
	if !ok || owner == mac {
		return true
	}
	l := s.leases[owner]
	_, kept := s.reserved[owner]
	return !kept && l != nil && l.expires.Before(s.now())
}

// find is an address for mac: its own, the one it wishes, or one that is free. It is invalid when none is.
func (s *server) find(mac mac48, wish netip.Addr) netip.Addr {
	if r, ok := s.reserved[mac]; ok {
		return r
	}
	if l := s.leases[mac]; l != nil && s.usable(l.ip, mac) {
		return l.ip
	}
	if wish.IsValid() && s.usable(wish, mac) {
		return wish
	}
	first := s.favourite(mac)
	for ip := first; ; {
		if s.usable(ip, mac) {
			return ip
		}
		if ip = ip.Next(); !ip.IsValid() || s.last.Less(ip) {
			ip = s.opts.DHCPStart
		}
		if ip == first {
			return netip.Addr{}
		}
	}
}

// favourite is where the search for an address for mac begins.
func (s *server) favourite(mac mac48) netip.Addr {
	h := fnv.New32a()
	_, _ = h.Write(mac[:])
	start, last := s.opts.DHCPStart.As4(), s.last.As4()
	n := binary.BigEndian.Uint32(last[:]) - binary.BigEndian.Uint32(start[:]) + 1
	if !s.opts.Spread || n == 0 || s.last.Less(s.opts.DHCPStart) {
		return s.opts.DHCPStart
	}
	binary.BigEndian.PutUint32(start[:], binary.BigEndian.Uint32(start[:])+h.Sum32()%n)
	return netip.AddrFrom4(start)
}

// bind gives ip to mac for a time.
func (s *server) bind(mac mac48, ip netip.Addr, d time.Duration) {
	until := s.now().Add(d)
	if l := s.leases[mac]; l != nil && l.ip == ip {
		l.expires = later(l.expires, until)
		return
	}
	s.forget(mac)
	if owner, ok := s.owners[ip]; ok && owner != mac {
		s.forget(owner)
	}
	s.leases[mac] = &lease{ip: ip, expires: until}
	s.owners[ip] = mac
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// forget takes mac's address back. A reserved one stays reserved.
func (s *server) forget(mac mac48) {
	l := s.leases[mac]
	if l == nil {
		return
	}
	delete(s.leases, mac)
	if s.reserved[mac] != l.ip {
		delete(s.owners, l.ip)
	}
}

// handle takes a message whose Ethernet source was src and returns the answer, nil for none.
func (s *server) handle(src net.HardwareAddr, payload []byte) *dhcpv4.DHCPv4 {
	m, err := dhcpv4.FromBytes(payload)
	if err != nil || m.OpCode != dhcpv4.OpcodeBootRequest || m.HWType != iana.HWTypeEthernet || len(m.ClientHWAddr) != 6 ||
		!slices.Equal(m.ClientHWAddr, src) {
		return nil
	}
	mac := mac48(m.ClientHWAddr)
	wish := address(m.RequestedIPAddress())
	switch m.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		if ip := s.find(mac, wish); ip.IsValid() {
			s.bind(mac, ip, offerTime)
			return s.answer(m, dhcpv4.MessageTypeOffer, ip)
		}
	case dhcpv4.MessageTypeRequest:
		return s.request(m, mac, wish)
	case dhcpv4.MessageTypeInform:
		return s.answer(m, dhcpv4.MessageTypeAck, netip.Addr{})
	case dhcpv4.MessageTypeRelease:
		if l := s.leases[mac]; l != nil && l.ip == address(m.ClientIPAddr) {
			s.forget(mac)
		}
	case dhcpv4.MessageTypeDecline:
		if l := s.leases[mac]; l != nil && l.ip == wish {
			s.forget(mac)
			s.declined[wish] = true
		}
	}
	return nil
}

// request gives the address that a client was offered (SELECTING), had before (INIT-REBOOT) or has (RENEWING, REBINDING).
func (s *server) request(m *dhcpv4.DHCPv4, mac mac48, wish netip.Addr) *dhcpv4.DHCPv4 {
	if id := address(m.ServerIdentifier()); id.IsValid() && id != s.opts.Gateway {
		return nil // it chose another server
	}
	if !wish.IsValid() {
		wish = address(m.ClientIPAddr)
	}
	if !wish.IsValid() || !s.usable(wish, mac) {
		return s.answer(m, dhcpv4.MessageTypeNak, netip.Addr{})
	}
	s.bind(mac, wish, s.opts.LeaseTime)
	return s.answer(m, dhcpv4.MessageTypeAck, wish)
}

// answer makes a reply, with the subnet's parameters unless it is a NAK.
func (s *server) answer(m *dhcpv4.DHCPv4, kind dhcpv4.MessageType, ip netip.Addr) *dhcpv4.DHCPv4 {
	mods := []dhcpv4.Modifier{
		dhcpv4.WithMessageType(kind),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(s.opts.Gateway.AsSlice())),
	}
	if kind != dhcpv4.MessageTypeNak {
		mods = append(
			mods,
			dhcpv4.WithClientIP(m.ClientIPAddr),
			dhcpv4.WithNetmask(net.CIDRMask(s.opts.Subnet.Bits(), 32)),
			dhcpv4.WithRouter(s.opts.Gateway.AsSlice()),
			dhcpv4.WithDNS(s.opts.Gateway.AsSlice()),
		)
		if s.opts.MTU != 1500 {
			mods = append(mods, dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU,
				[]byte{byte(s.opts.MTU >> 8), byte(s.opts.MTU)})))
		}
	}
	if ip.IsValid() {
		mods = append(mods, dhcpv4.WithYourIP(ip.AsSlice()), dhcpv4.WithLeaseTime(uint32(s.opts.LeaseTime/time.Second)))
	}
	r, err := dhcpv4.NewReplyFromRequest(m, mods...)
	if err != nil {
		return nil
	}
	return r
}

// address is an address field of a message, the zero Addr when it is empty.
func address(ip net.IP) netip.Addr {
	a, ok := netip.AddrFromSlice(ip.To4())
	if !ok || a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// answerDHCP sends the server's answer by the rules of RFC 2131, 4.1: to the address that a client already uses, to the
// one it is given, or to everybody.
func (h *Host) answerDHCP(p *fakeguest.Packet) {
	if p.SrcPort != 68 || p.DstIP != broadcastIP && p.DstIP != h.opts.Gateway {
		return
	}
	if h.opts.Silent != nil && h.opts.Silent() {
		return
	}
	r := h.dhcp.handle(p.Src, p.Data)
	if r == nil {
		return
	}
	mac, ip := p.Src, address(r.ClientIPAddr)
	switch {
	case r.MessageType() == dhcpv4.MessageTypeNak:
		mac, ip = broadcastMAC, broadcastIP
	case h.isGuest(ip):
	case r.IsBroadcast() || !address(r.YourIPAddr).IsValid():
		mac, ip = broadcastMAC, broadcastIP
	default:
		ip = address(r.YourIPAddr)
	}
	h.send(fakeguest.EthernetFrame(mac, h.opts.MAC, fakeguest.TypeIPv4,
		fakeguest.UDPPacket(netip.AddrPortFrom(h.opts.Gateway, 67), netip.AddrPortFrom(ip, 68), r.ToBytes())))
	h.opts.Log.Debug("DHCP", "mac", p.Src.String(), "answer", r.MessageType().String(), "address", r.YourIPAddr.String())
}
