// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

var errVersion = errors.New("another version of the program wrote it")

// content is what a file holds.
type content struct {
	leases []Lease
	anchor [16]byte     // UUID of the interface that lives as long as the network; null = none
	subnet netip.Prefix // IPv4, masked; invalid = none
	// extra are top-level fields that this program does not know. They are written back as they were, so that what a
	// newer program of the same version keeps here survives.
	extra map[string]json.RawMessage
}

// leaseJSON is a lease as it is written.
type leaseJSON struct {
	MAC string `json:"mac"`
	Lease
}

// encode writes {"version": 1, "leases": [{"mac", "ip", "expires", "hostname", "name"}...], "interface_id", "subnet",
// ...}, leases sorted by address.
func encode(c content) ([]byte, error) {
	leases := make([]leaseJSON, 0, len(c.leases))
	for _, l := range c.leases {
		l.Expires = writable(l.Expires)
		leases = append(leases, leaseJSON{l.MAC.String(), l})
	}
	slices.SortFunc(leases, func(a, b leaseJSON) int { return a.IP.Compare(b.IP) })
	top := map[string]any{"version": version, "leases": leases}
	for k, v := range c.extra {
		top[k] = v
	}
	if b := c.anchor; b != [16]byte{} {
		top["interface_id"] = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	if c.subnet.IsValid() {
		top["subnet"] = c.subnet
	}
	b, err := json.MarshalIndent(top, "", "\t")
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	if len(b) >= maxSize {
		return nil, fmt.Errorf("encode state: %d bytes are more than the limit of %d", len(b), maxSize)
	}
	return append(b, '\n'), nil
}

// writable is t as it is written. A clock that is far off must not keep the leases from being written at all: JSON has no
// years beyond 9999.
func writable(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Second)
	if first := time.Unix(0, 0).UTC(); t.Before(first) {
		return first
	}
	if last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC); t.After(last) {
		return last
	}
	return t
}

// decode reads what encode writes. Every value is checked: one that cannot be makes the whole file worthless.
func decode(b []byte) (c content, err error) {
	if len(b) > maxSize {
		return content{}, fmt.Errorf("decode state: more than %d bytes", maxSize)
	}
	if err := json.Unmarshal(b, &c.extra); err != nil {
		return content{}, fmt.Errorf("decode state: %w", err)
	}
	var v int
	if err := json.Unmarshal(c.extra["version"], &v); err != nil || v != version {
		return content{}, fmt.Errorf("decode state: version %s: %w", cut(c.extra["version"]), errVersion)
	}
	var leases []leaseJSON
	var id, subnet *string
	for field, to := range map[string]any{"leases": &leases, "interface_id": &id, "subnet": &subnet} {
		if raw, ok := c.extra[field]; ok && err == nil {
			if err = json.Unmarshal(raw, to); err != nil {
				err = fmt.Errorf("%s: %w", field, err)
			}
		}
	}
	maps.DeleteFunc(c.extra, func(field string, _ json.RawMessage) bool {
		return slices.Contains([]string{"version", "leases", "interface_id", "subnet"}, field)
	})
	if err == nil {
		c.leases, err = checkLeases(leases)
	}
	if err == nil && id != nil {
		c.anchor, err = ParseUUID(*id)
	}
	if err == nil && subnet != nil {
		if c.subnet, err = netip.ParsePrefix(*subnet); err == nil {
			err = checkSubnet(c.subnet)
		}
	}
	if err != nil {
		return content{}, fmt.Errorf("decode state: %w", err)
	}
	return c, nil
}

func checkLeases(in []leaseJSON) ([]Lease, error) {
	if len(in) > maxLeases {
		return nil, fmt.Errorf("check leases: %d are more than the limit of %d", len(in), maxLeases)
	}
	macs, ips := map[string]bool{}, map[netip.Addr]bool{}
	out := make([]Lease, 0, len(in))
	for _, j := range in {
		l := j.Lease
		var err error
		if l.MAC, err = net.ParseMAC(j.MAC); err != nil {
			return nil, fmt.Errorf("check lease: %w", err)
		}
		if err := l.check(); err != nil {
			return nil, err
		}
		if macs[string(l.MAC)] || ips[l.IP] {
			return nil, fmt.Errorf("check lease of %s: %s or its MAC address is there twice", l.MAC, l.IP)
		}
		macs[string(l.MAC)], ips[l.IP] = true, true
		out = append(out, l)
	}
	return out, nil
}

// cut shortens a foreign value for a message.
func cut(b []byte) []byte {
	const limit = 40
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return []byte("missing")
	}
	return b[:min(len(b), limit)]
}

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
