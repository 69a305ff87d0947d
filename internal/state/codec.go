// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// version of the file format. A file of another version is ignored.
	version = 1
	// maxSize of a file in bytes.
	maxSize = 4 << 20
	// maxLeases in a file: twice what the clients of a full daemon can have.
	maxLeases = 8192
)

// content is what a file holds. Fields that this program does not know are left out when it writes the file again.
type content struct {
	Version int          `json:"version"`
	Anchor  uuid         `json:"interface_id,omitzero"` // of the interface that lives as long as the network
	Subnet  netip.Prefix `json:"subnet,omitzero"`       // IPv4, masked
	Leases  []Lease      `json:"leases"`                // sorted by address
}

// encode is c as it is written.
func encode(c content) ([]byte, error) {
	c.Version, c.Leases = version, append([]Lease{}, c.Leases...)
	slices.SortFunc(c.Leases, func(a, b Lease) int { return a.IP.Compare(b.IP) })
	b, err := json.MarshalIndent(c, "", "\t")
	if err == nil && len(b) >= maxSize {
		err = fmt.Errorf("%d bytes are more than the limit of %d", len(b), maxSize)
	}
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	return append(b, '\n'), nil
}

// decode reads what encode writes. Every value is checked: one that cannot be makes the whole file worthless.
func decode(b []byte) (content, error) {
	var c content
	err := json.Unmarshal(b, &c)
	switch {
	case len(b) > maxSize:
		err = fmt.Errorf("more than %d bytes", maxSize)
	case err != nil:
	case c.Version != version:
		err = fmt.Errorf("version %d: another version of the program wrote it", c.Version)
	default:
		err = c.check()
	}
	if err != nil {
		return content{}, fmt.Errorf("decode state: %w", err)
	}
	return c, nil
}

// check tells what is wrong with a content beyond its single leases, which have been checked.
func (c *content) check() error {
	if len(c.Leases) > maxLeases {
		return fmt.Errorf("check leases: %d are more than the limit of %d", len(c.Leases), maxLeases)
	}
	seen := map[string]bool{}
	for _, l := range c.Leases {
		mac, ip := l.MAC.String(), l.IP.String()
		if seen[mac] || seen[ip] {
			return fmt.Errorf("check lease of %s: %s or its MAC address is there twice", mac, ip)
		}
		seen[mac], seen[ip] = true, true
	}
	if c.Subnet.IsValid() {
		return checkSubnet(c.Subnet)
	}
	return nil
}

// A Lease is a DHCP lease as it is remembered across restarts.
type Lease struct {
	MAC      net.HardwareAddr `json:"-"`                  // 6 bytes, unicast; "mac" in the file
	IP       netip.Addr       `json:"ip"`                 // IPv4
	Expires  time.Time        `json:"expires"`            // wall clock; in the past for an address that is only remembered
	Hostname string           `json:"hostname,omitempty"` // what CleanHostname returns, may be empty
	Name     string           `json:"name,omitempty"`     // by which the network's DNS knows it, without a domain; likewise, in lower case
}

// A leaseJSON is a lease in the file.
type leaseJSON struct {
	MAC string `json:"mac"`
	*lease
}

type lease Lease // without methods

// MarshalJSON implements json.Marshaler.
func (l Lease) MarshalJSON() ([]byte, error) {
	l.Expires = l.Expires.UTC().Truncate(time.Second)
	return json.Marshal(leaseJSON{l.MAC.String(), (*lease)(&l)})
}

// UnmarshalJSON implements json.Unmarshaler. It takes no lease that cannot be.
func (l *Lease) UnmarshalJSON(b []byte) (err error) {
	j := leaseJSON{lease: (*lease)(l)}
	if err = json.Unmarshal(b, &j); err != nil {
		return err
	}
	if l.MAC, err = net.ParseMAC(j.MAC); err != nil {
		return fmt.Errorf("check lease: %w", err)
	}
	return l.check()
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
	case l.Expires.UTC().Year() < 0 || l.Expires.UTC().Year() > 9999: // what JSON takes, in any zone
		return fmt.Errorf("check lease of %s: it ends in the year %d", l.MAC, l.Expires.UTC().Year())
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

// A uuid is one as text in JSON.
type uuid [16]byte

// MarshalText implements encoding.TextMarshaler.
func (u uuid) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *uuid) UnmarshalText(b []byte) (err error) {
	*u, err = ParseUUID(string(b))
	return err
}

// ParseUUID reads the form 01234567-89ab-cdef-0123-456789abcdef, the only one that uuid_parse takes.
func ParseUUID(s string) (id [16]byte, err error) {
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		if n, err := hex.Decode(id[:], []byte(strings.ReplaceAll(s, "-", ""))); err == nil && n == len(id) {
			return id, nil
		}
	}
	return id, fmt.Errorf("%.40q is not a UUID", s)
}
