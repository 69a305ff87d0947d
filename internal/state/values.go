// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"time"
)

// A Lease is a DHCP lease as it is remembered across restarts.
type Lease struct {
	MAC      net.HardwareAddr `json:"-"`                  // 6 bytes, unicast
	IP       netip.Addr       `json:"ip"`                 // IPv4
	Expires  time.Time        `json:"expires"`            // wall clock; in the past for an address that is only remembered
	Hostname string           `json:"hostname,omitempty"` // what CleanHostname returns, may be empty
	Name     string           `json:"name,omitempty"`     // by which the network's DNS knows it, without a domain; likewise, in lower case
}

// hostname is one label of a host's name (RFC 952, 1035 and 1123).
var hostname = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// CleanHostname returns the first label of what a guest calls itself, or "" when that is not letters, digits and hyphens.
// The name comes from a guest: it goes to logs and files.
func CleanHostname(s string) string {
	s, _, _ = strings.Cut(strings.TrimRight(s, "\x00"), ".")
	return hostname.FindString(s)
}

// check tells what is wrong with a lease that was read from a file.
func (l Lease) check() error {
	switch {
	case len(l.MAC) != 6 || l.MAC[0]&1 != 0 || string(l.MAC) == "\x00\x00\x00\x00\x00\x00":
		return fmt.Errorf("check lease of %s: %q is not the address of a network interface", l.IP, l.MAC)
	case !l.IP.Is4() || l.IP.IsUnspecified() || l.IP.IsMulticast() || l.IP.IsLoopback():
		return fmt.Errorf("check lease of %s: %q is not the address of a host", l.MAC, l.IP)
	case l.Hostname != CleanHostname(l.Hostname):
		return fmt.Errorf("check lease of %s: %q is not a host name", l.MAC, l.Hostname)
	case l.Name != strings.ToLower(CleanHostname(l.Name)):
		return fmt.Errorf("check lease of %s: %q is not a name in lower case", l.MAC, l.Name)
	}
	return nil
}

// minSubnetBits and maxSubnetBits are the lengths of netmasks that --vmnet-mask takes.
const (
	minSubnetBits = 8
	maxSubnetBits = 30
)

// checkSubnet tells why p is not the subnet of a network.
func checkSubnet(p netip.Prefix) error {
	a := p.Addr()
	if !a.Is4() || p != p.Masked() || p.Bits() < minSubnetBits || p.Bits() > maxSubnetBits ||
		a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.As4()[0] >= 240 {
		return fmt.Errorf("%s is not the subnet of a network", p)
	}
	return nil
}

// ParseUUID reads the form 01234567-89ab-cdef-0123-456789abcdef, the only one that uuid_parse takes.
func ParseUUID(s string) (id [16]byte, err error) {
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		if n, err := hex.Decode(id[:], []byte(s[:8]+s[9:13]+s[14:18]+s[19:23]+s[24:])); err == nil && n == len(id) {
			return id, nil
		}
	}
	return id, fmt.Errorf("%q is not a UUID", cut([]byte(s)))
}
