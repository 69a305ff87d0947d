// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/rfc1035label"

	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
)

// query is one message on its way through the server, whose lock is held.
type query struct {
	*Server
	m     *dhcpv4.DHCPv4
	mac   mac48            // of the client
	src   net.HardwareAddr // of the frame
	relay netip.Addr       // that the answer goes to; zero: there is none
	port  uint64
	now   time.Duration
}

// foreign tells whether q is not to be answered: its client can have no address here, or speaks by another one in its place, and
// another port has its lease. What has the client's own address in the frame is taken for the client, as the bridge does.
func (q *query) foreign() bool {
	l := q.pool.byMAC[q.mac]
	return q.mac[0]&1 != 0 || q.mac == mac48{} || q.relay.IsValid() && !q.cfg.Subnet.Contains(q.relay) ||
		q.mac != mac48(q.src) && l != nil && l.active(q.now) && l.port != 0 && l.port != q.port
}

// discover offers the client's own address, or a new one.
func (q *query) discover() (reply, bool) {
	if !q.admit() {
		return reply{}, false
	}
	l := q.pool.byMAC[q.mac]
	if l == nil || !q.pool.usable(l.ip, q.mac, q.now) {
		ip := q.pool.choose(q.mac, addr(q.m.RequestedIPAddress()), q.now)
		if ip.IsValid() {
			l = q.pool.take(q.mac, ip, q.now)
		}
		if !ip.IsValid() || l == nil {
			return q.poolFull()
		}
	}
	if !l.leased(q.now) {
		l.bound, l.until = false, q.now+offerTime
	}
	l.port = q.port
	return q.reply(dhcpv4.MessageTypeOffer, l.ip)
}

// request is SELECTING, INIT-REBOOT, RENEWING or REBINDING (RFC 2131, 4.3.2), told apart by what is filled in.
func (q *query) request() (reply, bool) {
	if id := addr(q.m.ServerIdentifier()); id.IsValid() && id != q.cfg.Gateway {
		if l := q.pool.byMAC[q.mac]; l != nil && !l.bound { // the client took another server's
			q.pool.remove(l)
		}
		return reply{}, false
	}
	ip := addr(q.m.RequestedIPAddress())
	if !ip.IsValid() {
		ip = addr(q.m.ClientIPAddr)
	}
	if !ip.IsValid() {
		q.stats.Malformed++
		return reply{}, false
	}
	if !q.pool.usable(ip, q.mac, q.now) {
		return q.nak()
	}
	if !q.admit() {
		return reply{}, false
	}
	l := q.pool.take(q.mac, ip, q.now)
	if l == nil {
		return q.poolFull()
	}
	q.bind(l)
	return q.reply(dhcpv4.MessageTypeAck, ip)
}

// bind starts or extends a lease.
func (q *query) bind(l *lease) {
	fresh := !l.leased(q.now)
	l.bound, l.until, l.port = true, q.now+LeaseTime, q.port
	if name := state.CleanHostname(q.m.HostName()); name != "" {
		l.hostname = name
	}
	if fresh || l.name == "" || !follows(l.name, strings.ToLower(l.hostname)) {
		q.pool.nameFor(l, q.now)
	}
	q.tellChange(l)
	if fresh {
		q.cfg.Log.Info("DHCP lease granted", "mac", l.mac.hardware().String(), "ip", l.ip.String(), "hostname", l.hostname)
	}
}

// decline takes the address out of use for a while: the client found it used by another host.
func (q *query) decline() {
	l := q.own(addr(q.m.RequestedIPAddress()))
	if l == nil {
		return
	}
	l.until = min(l.until, q.now)
	q.tellChange(l)
	q.pool.remove(l)
	if _, fixed := q.pool.fixed[q.mac]; !fixed { // a reserved address is the only one its client can have
		q.pool.byIP[l.ip] = &lease{ip: l.ip, until: q.now + quarantineTime, port: l.port}
	}
	q.cfg.Log.Warn("DHCP client declined its address because another host uses it; look for a guest with a static address",
		"mac", l.mac.hardware().String(), "ip", l.ip.String())
}

// release ends a lease. The address is remembered for the client as long as no other client needs it.
func (q *query) release() {
	l := q.own(addr(q.m.ClientIPAddr))
	if l == nil || !l.bound {
		return
	}
	l.until, l.port = min(l.until, q.now), 0
	q.tellChange(l)
	q.cfg.Log.Debug("DHCP lease released", "mac", l.mac.hardware().String(), "ip", l.ip.String())
}

// own is the client's lease of ip if the client is where it was seen last: no guest ends the lease of another.
func (q *query) own(ip netip.Addr) *lease {
	if id := addr(q.m.ServerIdentifier()); id.IsValid() && id != q.cfg.Gateway {
		return nil
	}
	l := q.pool.byMAC[q.mac]
	if l == nil || l.ip != ip || l.port != q.port {
		return nil
	}
	return l
}

// inform tells a client with an address of its own the rest.
func (q *query) inform() (reply, bool) {
	if !q.cfg.Subnet.Contains(addr(q.m.ClientIPAddr)) {
		q.stats.Malformed++
		return reply{}, false
	}
	return q.reply(dhcpv4.MessageTypeAck, netip.Addr{})
}

// admit tells whether the port may have one more address, the client's own not counted.
func (q *query) admit() bool {
	if q.pool.charged(q.port, q.mac, q.now) < maxPerPort {
		return true
	}
	q.stats.PortFull++
	q.cfg.Log.Warn("DHCP client gets no address because too many are leased to its virtual machine",
		"mac", q.mac.hardware().String(), "limit", maxPerPort)
	return false
}

func (q *query) poolFull() (reply, bool) {
	q.stats.PoolFull++
	q.cfg.Log.Warn("DHCP client gets no address because all are leased; use a larger subnet",
		"mac", q.mac.hardware().String(), "start", q.cfg.First.String(), "end", q.cfg.Last.String())
	return reply{}, false
}

// nak tells the client to start over. It is broadcast because the client's address may be worth nothing here, by the relay if there
// is one.
func (q *query) nak() (reply, bool) {
	r, mac, to := q.answer(dhcpv4.MessageTypeNak), broadcastMAC, toAll
	if q.relay.IsValid() {
		r.SetBroadcast()
		mac, to = q.src, netip.AddrPortFrom(q.relay, dhcpv4.ServerPort)
	}
	return reply{Payload: r.ToBytes(), MAC: mac, To: to}, true
}

// answer is what all replies have in common.
func (q *query) answer(t dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	r := &dhcpv4.DHCPv4{Options: dhcpv4.Options{}}
	dhcpv4.WithReply(q.m)(r)
	r.GatewayIPAddr = q.m.GatewayIPAddr
	dhcpv4.WithOptionCopied(q.m, dhcpv4.OptionClientIdentifier)(r)      // RFC 6842
	dhcpv4.WithOptionCopied(q.m, dhcpv4.OptionRelayAgentInformation)(r) // RFC 3046, 2.2
	r.UpdateOption(dhcpv4.OptMessageType(t))
	r.UpdateOption(dhcpv4.OptServerIdentifier(q.cfg.Gateway.AsSlice()))
	return r
}

// reply is an OFFER or ACK. Without an address it is the answer to INFORM, which carries no lease.
func (q *query) reply(t dhcpv4.MessageType, ip netip.Addr) (reply, bool) {
	r := q.answer(t)
	gw := net.IP(q.cfg.Gateway.AsSlice())
	r.ServerIPAddr = gw
	r.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(q.cfg.Subnet.Bits(), 32)))
	if q.cfg.DNS {
		r.UpdateOption(dhcpv4.OptDNS(gw))
	}
	if q.cfg.Router {
		r.UpdateOption(dhcpv4.OptRouter(gw))
	}
	if q.cfg.Domain != "" {
		r.UpdateOption(dhcpv4.OptDomainName(q.cfg.Domain))
		r.UpdateOption(dhcpv4.OptDomainSearch(&rfc1035label.Labels{Labels: []string{q.cfg.Domain}}))
	}
	r.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU, []byte{byte(q.cfg.MTU >> 8), byte(q.cfg.MTU)}))
	if ip.IsValid() {
		r.YourIPAddr = ip.AsSlice()
		r.UpdateOption(dhcpv4.OptIPAddressLeaseTime(LeaseTime))
		r.UpdateOption(dhcpv4.OptRenewTimeValue(t1))
		r.UpdateOption(dhcpv4.OptRebindingTimeValue(t2))
	}
	if c := addr(q.m.ClientIPAddr); c.IsValid() && t == dhcpv4.MessageTypeAck {
		r.ClientIPAddr = c.AsSlice()
	}
	mac, to := q.destination(ip)
	return reply{Payload: r.ToBytes(), MAC: mac, To: to}, true
}

// toAll is where what is broadcast goes.
var toAll = netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), dhcpv4.ClientPort)

// destination is where an OFFER or ACK goes (RFC 2131, 4.1). The client's MAC address is known, so a client without an
// address is reached by unicast unless it asks for broadcast, or is behind a bridge that rewrites addresses: what is for the
// client's own would not pass that.
func (q *query) destination(yours netip.Addr) (net.HardwareAddr, netip.AddrPort) {
	c := addr(q.m.ClientIPAddr)
	switch {
	case q.relay.IsValid():
		return q.src, netip.AddrPortFrom(q.relay, dhcpv4.ServerPort)
	case c.IsValid():
		return q.src, netip.AddrPortFrom(c, dhcpv4.ClientPort)
	case q.m.IsBroadcast() || !yours.IsValid() || q.mac != mac48(q.src):
		return broadcastMAC, toAll
	}
	return q.src, netip.AddrPortFrom(yours, dhcpv4.ClientPort)
}
