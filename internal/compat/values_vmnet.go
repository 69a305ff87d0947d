// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

func (s *settings) addReservation(v string) error {
	mac, ip, ok := strings.Cut(v, "=")
	if !ok {
		return invalid("vmnet-reserve", v, "use MAC=IP, such as 52:54:00:12:34:56=192.168.105.9")
	}
	r := network.Reservation{MAC: parseMAC(mac)}
	switch _, swapped := guestAddr(mac); {
	case r.MAC == nil && swapped && parseMAC(ip) != nil:
		return invalid("vmnet-reserve", v, fmt.Sprintf("the order is MAC=IP, so use %s=%s", ip, mac))
	case r.MAC == nil:
		return invalid("vmnet-reserve", v, quoted(mac)+" is not the MAC address of a guest, such as 52:54:00:12:34:56")
	}
	if r.Addr, ok = guestAddr(ip); !ok {
		return invalid("vmnet-reserve", v, quoted(ip)+" is not the IPv4 address of a guest")
	}
	for _, other := range s.Reservations {
		switch {
		case bytes.Equal(other.MAC, r.MAC):
			return invalid("vmnet-reserve", v, fmt.Sprintf("%s has a reserved address already, %s", mac, other.Addr))
		case other.Addr == r.Addr:
			return invalid("vmnet-reserve", v, fmt.Sprintf("%s is reserved for %s already", ip, other.MAC))
		}
	}
	s.Reservations = append(s.Reservations, r)
	return nil
}

func (s *settings) setHostLoopback(v string) error {
	s.HostLoopback, s.LoopbackPorts = v, nil
	if v == "on" || v == "off" {
		return nil
	}
	for text := range strings.SplitSeq(v, ",") {
		port, ok := parseDecimal(text, 1, 65535)
		if !ok {
			return invalid("host-loopback", v, "use on, off, or ports such as 8080,9000")
		}
		s.LoopbackPorts = append(s.LoopbackPorts, uint16(port))
	}
	return nil
}

func (s *settings) addForward(v string) error {
	host, guest, _ := strings.Cut(v, "=")
	proto, hostPort, okHost := strings.Cut(host, ":")
	ip, guestPort, okGuest := strings.Cut(guest, ":")
	if !okHost || !okGuest {
		return invalid("vmnet-forward", v, "use PROTO:[HOSTIP:]PORT=IP:PORT, such as tcp:8080=192.168.105.5:80")
	}
	f := network.Forward{Proto: proto}
	if hostIP, port, given := strings.Cut(hostPort, ":"); given {
		hostPort = port
		if f.HostIP, _ = netip.ParseAddr(hostIP); !f.HostIP.Is4() {
			return invalid("vmnet-forward", v, quoted(hostIP)+" is not an IPv4 address of this host")
		}
	}
	if proto != "tcp" && proto != "udp" {
		return invalid("vmnet-forward", v, quoted(proto)+" cannot be forwarded, only tcp and udp")
	}
	hp, okHost := parseDecimal(hostPort, 1, 65535)
	a, okAddr := guestAddr(ip)
	gp, okGuest := parseDecimal(guestPort, 1, 65535)
	switch {
	case !okHost:
		return invalid("vmnet-forward", v, quoted(hostPort)+" is not a port from 1 to 65535")
	case !okAddr:
		return invalid("vmnet-forward", v, quoted(ip)+" is not the IPv4 address of a guest")
	case !okGuest:
		return invalid("vmnet-forward", v, quoted(guestPort)+" is not a port from 1 to 65535")
	}
	f.HostPort, f.Guest = uint16(hp), netip.AddrPortFrom(a, uint16(gp))
	if i := slices.IndexFunc(s.Forwards, func(o network.Forward) bool {
		return o.Proto == f.Proto && o.HostIP == f.HostIP && o.HostPort == f.HostPort
	}); i >= 0 {
		return invalid("vmnet-forward", v, fmt.Sprintf("%s port %d is forwarded already, to %s", proto, hp, s.Forwards[i].Guest))
	}
	s.Forwards = append(s.Forwards, f)
	return nil
}

// checkServed checks records and forwards against the rest, and against the addresses, which are settled. What only one of vmnet's two
// ways, or only one back end, can do is not its business.
func (s *settings) checkServed() error {
	if s.DisableDNSProxy && len(s.DNSRecords) > 0 {
		return errors.New("--dns-record=NAME=IP needs the DNS server, which --vmnet-disable-dns-proxy turns off")
	}
	for _, f := range s.Forwards {
		if why := s.notAGuest(f.Guest.Addr()); why != "" {
			return fmt.Errorf("--vmnet-forward=%s: %s %s", f, f.Guest.Addr(), why)
		}
	}
	return nil
}

// checkBridged refuses what bridged mode has no place for: there the network and everything in it belongs to others. An
// MTU there is an error by vmnet.h; whether isolation works there is not known, and a promise of isolation that is
// not kept is worse than none.
func (s *settings) checkBridged() error {
	if s.Mode != network.ModeBridged {
		return nil
	}
	for _, option := range []string{
		"vmnet-disable-nat44", "vmnet-disable-nat66", "vmnet-disable-dns-proxy", "vmnet-disable-ra", "vmnet-mtu", "vmnet-reserve",
		"vmnet-forward", "isolate",
	} {
		if s.given(option) {
			return errors.New(`vmnet mode "bridged" conflicts with --` + option)
		}
	}
	return nil
}

// checkReservations wants to know the subnet: an address of a network that macOS chooses anew may be anywhere next time.
func (s *settings) checkReservations() error {
	if len(s.Reservations) == 0 {
		return nil
	}
	if !s.given("vmnet-gateway") {
		return errors.New("--vmnet-reserve=MAC=IP requires --vmnet-gateway=IP")
	}
	if s.withoutDHCP() {
		return errors.New("--vmnet-reserve=MAC=IP needs the DHCP server, which is off")
	}
	for _, r := range s.Reservations {
		if why := s.notAGuest(r.Addr); why != "" {
			return fmt.Errorf("--vmnet-reserve=%s=%s: %s %s", r.MAC, r.Addr, r.Addr, why)
		}
	}
	return nil
}

// notAGuest tells why no guest can have address a in the network, empty if one can or the network is not known yet.
func (s *settings) notAGuest(a netip.Addr) string {
	switch {
	case !s.Subnet.IsValid():
		return ""
	case a == s.Gateway:
		return "is the gateway"
	}
	return notAHost(a, s.Subnet)
}

// guestAddr reads an IPv4 address that a host in some network can have.
func guestAddr(v string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(v)
	return a, err == nil && a.Is4() && usable(a)
}

// parseMAC reads six pairs of hexadecimal digits with colons between them, nil if v is something else or no address that
// one NIC can have.
func parseMAC(v string) net.HardwareAddr {
	mac, err := net.ParseMAC(v)
	if err != nil || len(v) != 17 || v[2] != ':' || mac[0]&1 != 0 || bytes.Equal(mac, make([]byte, 6)) {
		return nil
	}
	return mac
}

// parseDecimal reads a number from low to high in its only form: digits, the first of them no zero.
func parseDecimal(v string, low, high int) (int, bool) {
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil || v[0] == '0' || int(n) < low || int(n) > high {
		return 0, false
	}
	return int(n), true
}

// InetAton reads an IPv4 address by the rules of C's inet_aton, which is what socket_vmnet checks --vmnet-gateway with:
// one to four parts of decimal, octal (leading 0) or hexadecimal (leading 0x) numbers, the last of which fills all bytes
// that are left. So "192.168.105.1", "192.168.27137", "0xc0a86901" and "0300.0250.0151.01" are the same address.
// inet_aton ignores anything behind a white space; here that is an error, since vmnet, which is given the text, refuses it.
func InetAton(s string) (netip.Addr, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var sum uint64
	for i, p := range parts {
		// C's prefixes are some of Go's. A bare "0x" has no digit and is refused.
		n, err := strconv.ParseUint(p, 0, 32)
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if err != nil || strings.Trim(p, "0123456789abcdefABCDEFxX") != "" || strings.HasPrefix(strings.ToLower(p), "0b") || n >= 1<<bits {
			return netip.Addr{}, false
		}
		sum = sum<<bits | n
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(sum))
	return netip.AddrFrom4(b), true
}
