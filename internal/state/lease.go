// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// A Lease is a DHCP lease as it is remembered across restarts.
type Lease struct {
	MAC      net.HardwareAddr // 6 bytes, unicast
	IP       netip.Addr       // IPv4
	Expires  time.Time        // wall clock; in the past for an address that is only remembered
	Hostname string           // what CleanHostname returns, may be empty
	Name     string           // by which the network's DNS knows it, without a domain; likewise, in lower case
}

// maxHostname is the longest label of a host name in bytes (RFC 1035).
const maxHostname = 63

// CleanHostname returns the first label of what a guest calls itself, or "" when that is not letters, digits and hyphens
// (RFC 952 and 1123). The name comes from a guest: it goes to logs and files.
func CleanHostname(s string) string {
	s, _, _ = strings.Cut(strings.TrimRight(s, "\x00"), ".")
	if s == "" || len(s) > maxHostname || s[0] == '-' || s[len(s)-1] == '-' {
		return ""
	}
	for _, c := range []byte(s) {
		if c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return ""
		}
	}
	return s
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
