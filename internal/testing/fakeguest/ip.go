// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// firstPort is the lowest source port.
const firstPort = 20000

// Resolve asks for the MAC address of ip by ARP. Nothing is taken from the cache.
func (g *Guest) Resolve(ip netip.Addr) (net.HardwareAddr, error) {
	own := g.Addr().Addr()
	if !own.IsValid() {
		own = netip.IPv4Unspecified() // a probe
	}
	ask := ARPPacket(ARPRequest, g.MAC(), own, make(net.HardwareAddr, 6), ip)
	p, err := g.exchange(EthernetFrame(Broadcast, g.MAC(), TypeARP, ask), func(p *Packet) bool { return p.ARPOp == ARPReply && p.SrcIP == ip })
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", ip, err)
	}
	g.mu.Lock()
	g.neighbour[ip] = p.SenderMAC
	g.mu.Unlock()
	return p.SenderMAC, nil
}

// nextHop is the MAC address to which packets for ip go: its own in the subnet, else the gateway's. Answers are cached.
func (g *Guest) nextHop(ip netip.Addr) (net.HardwareAddr, error) {
	g.mu.Lock()
	hop := ip
	if !g.addr.IsValid() {
		g.mu.Unlock()
		return nil, errors.New("the guest has no address; call SetAddr or Configure")
	}
	if !g.addr.Masked().Contains(ip) {
		hop = g.gateway
	}
	mac := g.neighbour[hop]
	g.mu.Unlock()
	if mac != nil {
		return mac, nil
	}
	return g.Resolve(hop)
}

// ipFrame is a frame from the Guest that carries an IPv4 packet, such as IPv4Packet makes, to where ip is routed.
func (g *Guest) ipFrame(ip netip.Addr, packet []byte) ([]byte, error) {
	mac, err := g.nextHop(ip)
	if err != nil {
		return nil, err
	}
	return EthernetFrame(mac, g.MAC(), TypeIPv4, packet), nil
}

// Ping sends one echo request with n bytes of data and returns the round-trip time.
func (g *Guest) Ping(ip netip.Addr, n int) (time.Duration, error) {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i)
	}
	id := uint16(g.ids.Add(1))
	f, err := g.ipFrame(ip, IPv4Packet(g.Addr().Addr(), ip, ProtoICMP, ICMPMessage(EchoRequest, id, 1, data)))
	if err != nil {
		return 0, fmt.Errorf("ping %s: %w", ip, err)
	}
	start := time.Now()
	p, err := g.exchange(f, func(p *Packet) bool {
		return p.Proto == ProtoICMP && p.DstIP == g.Addr().Addr() &&
			(p.ICMPType == EchoReply && p.EchoID == id && p.SrcIP == ip || p.ICMPType == Unreachable)
	})
	rtt := time.Since(start)
	switch {
	case err != nil:
		return 0, fmt.Errorf("ping %s: %w", ip, err)
	case p.ICMPType == Unreachable:
		return rtt, fmt.Errorf("ping %s: destination unreachable: code %d from %s", ip, p.ICMPCode, p.SrcIP)
	case string(p.Data) != string(data):
		return rtt, fmt.Errorf("ping %s: the reply holds other data: %d bytes, sent %d", ip, len(p.Data), len(data))
	}
	return rtt, nil
}

// ExchangeSYN sends a SYN and returns the flags of the answer: TCPSyn|TCPAck, or TCPRst|TCPAck where it is refused.
func (g *Guest) ExchangeSYN(to netip.AddrPort) (flags byte, err error) {
	from := firstPort + uint16(g.ids.Add(1)%40000) // not used for a while
	f, err := g.ipFrame(to.Addr(), TCPPacket(netip.AddrPortFrom(g.Addr().Addr(), from), to, TCPSyn, 1, 0))
	if err != nil {
		return 0, fmt.Errorf("send SYN to %s: %w", to, err)
	}
	p, err := g.exchange(f, func(p *Packet) bool { return p.Proto == protoTCP && p.From() == to && p.DstPort == from })
	if err != nil {
		return 0, fmt.Errorf("wait for an answer to SYN from %s: %w", to, err)
	}
	return p.TCPFlags, nil
}
