// SPDX-License-Identifier: Apache-2.0

// Package watch reads a client's ARP and DHCPv4 frames in passing, to tell its MAC address, IPv4 address and hostname in logs
// and status. It sends nothing, decides nothing and believes what the guest says: nothing may be permitted because of it.
//
// Frames with a VLAN tag are not looked into.
package watch

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// A Watch collects what is known about one client. Its zero value knows nothing and is ready. All methods may be called
// from several goroutines.
type Watch struct {
	mac atomic.Uint64 // macKnown | 48 bits, 0 before the first frame

	mu       sync.Mutex
	ip       netip.Addr
	wanted   netip.Addr
	hostname string
	dhcp     Kind
}

// macKnown marks a stored MAC, so that zero means none.
const macKnown = 1 << 48

// A Snapshot is what is known about a client at one moment. Fields that are not known are zero.
type Snapshot struct {
	MAC      net.HardwareAddr // source of the client's first frame
	IP       netip.Addr       // IPv4 address in use, as the guest or a DHCP server said last
	Hostname string           // sanitised, at most 63 bytes
	Wanted   netip.Addr       // IPv4 address that the guest asked its DHCP server for last
	DHCP     Kind             // the DHCP message that the guest sent last
}

// Interesting reports whether f, an Ethernet frame without its prefix, may hold something for a Watch: an ARP packet or an
// unfragmented DHCPv4 message. It is meant for the hot path, costs a few nanoseconds and allocates nothing.
func Interesting(f []byte) bool {
	if len(f) < ethernetLen+arpLen { // also the least for IPv4 and UDP headers
		return false
	}
	switch binary.BigEndian.Uint16(f[12:]) {
	case typeARP:
		return true
	case typeIPv4:
		return f[23] == protoUDP && dhcpPorts(f) != 0
	}
	return false
}

// FromClient takes a frame that the client sent, without its prefix, and reports whether MAC, IP or Hostname changed. The
// first frame must be passed whatever it is, later ones only if Interesting. The guest decides how often something
// changes: a caller that logs it must limit its rate.
func (w *Watch) FromClient(f []byte) (changed bool) {
	if w.mac.Load() == 0 {
		changed = w.learnMAC(f)
	}
	if !Interesting(f) {
		return changed
	}
	if binary.BigEndian.Uint16(f[12:]) == typeARP {
		if ip, ok := arpSender(f, w.mac.Load()); ok && (ip.always || !w.IP().IsValid()) {
			return w.setIP(ip.addr) || changed
		}
		return changed
	}
	if m, ok := parseDHCP(f); ok && m.op == opRequest && m.chaddr == w.mac.Load() {
		return w.clientDHCP(&m) || changed
	}
	return changed
}

// ToClient takes a frame on its way to the client, without its prefix, and reports whether IP changed: the address comes
// from a DHCP ACK for this client's MAC. Only Interesting frames need to be passed.
func (w *Watch) ToClient(f []byte) (changed bool) {
	if !Interesting(f) || binary.BigEndian.Uint16(f[12:]) != typeIPv4 {
		return false
	}
	m, ok := parseDHCP(f)
	if !ok || m.op != opReply || m.kind != ACK || m.chaddr != w.mac.Load() || !usable(m.yiaddr) {
		return false
	}
	return w.setIP(m.yiaddr)
}

// MAC is the source address of the client's first frame, nil before it.
func (w *Watch) MAC() net.HardwareAddr {
	m := w.mac.Load()
	if m == 0 {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, m)[2:]
}

// IP is the IPv4 address that the client uses, invalid while none is known.
func (w *Watch) IP() netip.Addr {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ip
}

// Hostname is the name that the guest gave to its DHCP server: at most 63 bytes, letters, digits, '-', '.' and '_' only.
func (w *Watch) Hostname() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hostname
}

// Snapshot is everything known now.
func (w *Watch) Snapshot() Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Snapshot{MAC: w.MAC(), IP: w.ip, Hostname: w.hostname, Wanted: w.wanted, DHCP: w.dhcp}
}

// learnMAC keeps the source address of f if it is a station's.
func (w *Watch) learnMAC(f []byte) bool {
	if len(f) < ethernetLen || f[6]&1 != 0 {
		return false
	}
	m := mac48(f[6:])
	return m != macKnown && w.mac.CompareAndSwap(0, m)
}

// setIP notes the address in use. The last news wins, whether from ARP or DHCP.
func (w *Watch) setIP(ip netip.Addr) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed = w.ip != ip
	w.ip = ip
	return changed
}

// clientDHCP notes what the guest tells its server.
func (w *Watch) clientDHCP(m *message) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.kind == 0 || m.kind == OFFER || m.kind == ACK || m.kind == NAK {
		return false // BOOTP, or a server's message from the client's side
	}
	w.dhcp = m.kind
	ip := w.ip
	switch m.kind {
	case DISCOVER, REQUEST:
		if usable(m.wanted()) {
			w.wanted = m.wanted()
		}
		if usable(m.ciaddr) { // it has the address and renews
			ip = m.ciaddr
		}
	case INFORM:
		if usable(m.ciaddr) {
			ip = m.ciaddr
		}
	case RELEASE, DECLINE:
		ip = netip.Addr{}
	}
	changed = ip != w.ip
	w.ip = ip
	if n := m.hostnameLen; n > 0 && w.hostname != string(m.hostname[:n]) { // compares without allocating
		w.hostname = string(m.hostname[:n])
		changed = true
	}
	return changed
}
