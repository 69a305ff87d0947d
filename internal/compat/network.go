// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// defaultMaskBits is 255.255.255.0, socket_vmnet's default mask.
const defaultMaskBits = 24

// errSilent marks a failure for which socket_vmnet prints the usage text and no message.
var errSilent = errors.New("usage")

// A plainError is a value that socket_vmnet hands to vmnet unchecked: vmnet then refuses to start, so there is an error line
// and no usage text.
type plainError struct{ error }

// Unwrap is the error.
func (e plainError) Unwrap() error { return e.error }

// finish checks the values against each other, in socket_vmnet's order, and fills in what depends on others.
func (s *settings) finish() error {
	s.SocketGroupSet, s.PidfileSet = s.given("socket-group"), s.given("pidfile")
	if s.given("vmnet-interface") && s.Interface == "" {
		return plainError{errors.New(`--vmnet-interface is empty: give an interface of this host, such as "en0"`)}
	}
	if s.Mode == network.ModeBridged && s.Interface == "" {
		return errors.New(`vmnet mode "bridged" require --vmnet-interface to be specified`)
	}
	if !s.given("vmnet-gateway") {
		if err := s.withoutGateway(); err != nil {
			return err
		}
	} else if err := s.withGateway(); err != nil {
		return err
	}
	s.warnDisableDHCP()
	for _, check := range []func() error{s.checkNAT66, s.checkMetrics, s.checkBridged, s.checkReservations, s.checkServed} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// withoutGateway leaves the addresses to the network.
func (s *settings) withoutGateway() error {
	if s.Mode == network.ModeShared {
		s.warn("--vmnet-gateway=IP should be explicitly specified to avoid conflicting with other applications")
	}
	for _, option := range []string{"vmnet-dhcp-end=IP", "vmnet-mask=MASK", "vmnet-gateway-any"} {
		if name, _, _ := strings.Cut(option, "="); s.given(name) {
			return fmt.Errorf("--%s requires --vmnet-gateway=IP", option)
		}
	}
	return nil
}

func (s *settings) warn(text string) { s.Warnings = append(s.Warnings, text) }

// withGateway settles gateway, subnet and the end of the pool.
func (s *settings) withGateway() error {
	if s.Mode == network.ModeBridged {
		return errors.New(`vmnet mode "bridged" conflicts with --vmnet-gateway`)
	}
	gw, ok := InetAton(s.gateway)
	if !ok {
		return badAddress("vmnet-gateway", s.gateway)
	}
	if err := s.settleSubnet(gw); err != nil {
		return plainError{err}
	}
	return nil
}

func (s *settings) settleSubnet(gw netip.Addr) (err error) {
	maskBits := defaultMaskBits
	if s.given("vmnet-mask") {
		if maskBits, err = parseMask(s.mask); err != nil {
			return err
		}
	}
	s.Gateway, s.Subnet = gw, netip.PrefixFrom(gw, maskBits).Masked()
	if !usable(gw) {
		return invalid("vmnet-gateway", gw.String(), "use an address of a private network, such as 192.168.105.1")
	}
	if why := notAHost(gw, s.Subnet); why != "" {
		return fmt.Errorf("--vmnet-gateway=%s %s", gw, why)
	}
	if err := s.checkPrivate(); err != nil {
		return err
	}
	return s.settleDHCPEnd()
}

// badAddress is an address that is none, in socket_vmnet's words and ours. Many give a prefix, which is told apart.
func badAddress(name, v string) error {
	advice := "use an IPv4 address such as 192.168.105.1"
	ip, length, _ := strings.Cut(v, "/")
	bits, ok := parseDecimal(length, 8, 30)
	mask := net.IP(net.CIDRMask(bits, 32))
	_, isAddr := InetAton(ip)
	switch {
	case name == "vmnet-mask" && ok:
		advice = "use " + mask.String()
	case name == "vmnet-mask":
		advice = "use a netmask such as 255.255.255.0"
	case ok && isAddr:
		advice = fmt.Sprintf("use %s, and --vmnet-mask=%s", ip, mask)
	}
	return legacyInvalid(fmt.Sprintf("invalid address %s was specified for --%s", quoted(v), name), name, v, advice)
}

// parseMask returns the length of a netmask in bits. 31 and 32 leave no address for a guest.
func parseMask(v string) (int, error) {
	a, ok := InetAton(v)
	if !ok {
		return 0, badAddress("vmnet-mask", v)
	}
	n, size := net.IPMask(a.AsSlice()).Size()
	if size == 0 {
		return 0, invalid("vmnet-mask", v, "its one bits must come first, as in 255.255.255.0")
	}
	if n < 8 || n > 30 {
		return 0, invalid("vmnet-mask", v, "use one from 255.0.0.0 to 255.255.255.252")
	}
	return n, nil
}

// usable tells whether an IPv4 address is one that a host in some network can have.
func usable(a netip.Addr) bool {
	return !a.IsLoopback() && !a.IsMulticast() && a.As4()[0] != 0 && a.As4()[0] < 240
}

// notAHost tells why no host of subnet can have address a, empty if one can.
func notAHost(a netip.Addr, subnet netip.Prefix) string {
	switch a {
	case subnet.Addr():
		return "is the network address of " + subnet.String()
	case lastAddr(subnet):
		return "is the broadcast address of " + subnet.String()
	}
	if !subnet.Contains(a) {
		return "is not in the network " + subnet.String()
	}
	return ""
}

// privateBlocks are whose addresses no host of the Internet has: those of RFC 1918, and the one that RFC 6598 keeps for carriers,
// which overlay networks use too.
var privateBlocks = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"),
}

// checkPrivate refuses a subnet that would hide hosts of the Internet from the guests, and on vmnet from this host. socket_vmnet
// takes any.
func (s *settings) checkPrivate() error {
	inside := func(b netip.Prefix) bool { return b.Contains(s.Gateway) && b.Bits() <= s.Subnet.Bits() }
	if s.old || s.gatewayAny || slices.ContainsFunc(privateBlocks, inside) {
		return nil
	}
	return fmt.Errorf("--vmnet-gateway=%s: guests would not reach the Internet's hosts in %s; choose an address in 10.0.0.0/8, 172.16.0.0/12, "+
		"192.168.0.0/16 or 100.64.0.0/10, or allow this one by --vmnet-gateway-any", s.Gateway, s.Subnet)
}

// settleDHCPEnd checks a given end of the pool, or derives it: the gateway's address with 254 as last byte, as
// socket_vmnet has it, and where that is no address behind the gateway in the subnet, the subnet's last one.
func (s *settings) settleDHCPEnd() error {
	last, b := lastAddr(s.Subnet).Prev(), s.Gateway.As4()
	b[3] = 254
	s.DHCPEnd = netip.AddrFrom4(b)
	if s.given("vmnet-dhcp-end") {
		a, ok := InetAton(s.dhcpEnd)
		if !ok {
			return badAddress("vmnet-dhcp-end", s.dhcpEnd)
		}
		if !s.Subnet.Contains(a) {
			return fmt.Errorf("--vmnet-dhcp-end=%s %s", a, notAHost(a, s.Subnet))
		}
		s.DHCPEndSet, s.DHCPEnd = true, a
	} else if !s.Gateway.Less(s.DHCPEnd) || last.Less(s.DHCPEnd) {
		s.DHCPEnd = last
	}
	if !s.Gateway.Less(s.DHCPEnd) && !s.withoutDHCP() {
		return fmt.Errorf("--vmnet-gateway=%s leaves no address for guests: they get those after it, up to %s", s.Gateway, s.DHCPEnd)
	}
	return nil
}

// withoutDHCP tells whether the network will have no DHCP server, so that its pool does not matter.
func (s *settings) withoutDHCP() bool {
	return s.DisableDHCP || s.NetworkID != [16]byte{} && s.Mode == network.ModeHost
}

// warnDisableDHCP names the options that have no effect beside --vmnet-disable-dhcp.
func (s *settings) warnDisableDHCP() {
	if !s.DisableDHCP {
		return
	}
	given := []bool{s.DHCPEndSet, s.InterfaceID != [16]byte{}, s.NetworkID != [16]byte{}}
	for i, name := range []string{"--vmnet-dhcp-end", "--vmnet-interface-id", "--vmnet-network-identifier"} {
		if given[i] {
			s.warn(name + " has no effect with --vmnet-disable-dhcp")
		}
	}
}

// ulaBlock is where locally assigned unique local prefixes come from (RFC 4193).
var ulaBlock = netip.MustParsePrefix("fd00::/8")

// nat66Bits is the length of the prefix that vmnet makes of its key.
const nat66Bits = 64

func (s *settings) checkNAT66() error {
	if !s.given("vmnet-nat66-prefix") {
		return nil
	}
	a, err := netip.ParseAddr(s.nat66)
	if err != nil || !a.Is6() || a.Zone() != "" {
		return plainError{invalid("vmnet-nat66-prefix", s.nat66, "use an IPv6 prefix in fd00::/8, such as fd00:1234::")}
	}
	if !ulaBlock.Contains(a) {
		return plainError{fmt.Errorf("--vmnet-nat66-prefix=%s is not in %s: use fd00:1234:: or the like", a, ulaBlock)}
	}
	p := netip.PrefixFrom(a, nat66Bits)
	if p.Masked() != p {
		return plainError{fmt.Errorf("--vmnet-nat66-prefix=%s has bits behind the first %d; use %s", a, nat66Bits, p.Masked().Addr())}
	}
	s.NAT66Prefix = p
	return nil
}

// lastAddr is the broadcast address of p.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])|^uint32(0)>>p.Bits())
	return netip.AddrFrom4(b)
}
