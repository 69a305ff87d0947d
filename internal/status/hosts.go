// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// domain is that of guests in the embedded network's DNS.
const domain = "vmnet.internal"

// maxLabel is the longest that a part of a host name may be, in bytes: RFC 1035, 2.3.4.
const maxLabel = 63

// reserved are names that no guest gets: others depend on what they mean.
var reserved = []string{"localhost", "localdomain", "broadcasthost", "gateway", "host", "local", "internal", "wpad"}

// Hosts are lines for /etc/hosts: each address once, and each name once. A guest's name is cut at its first dot, so that none
// can take that of another host.
func (s *Status) Hosts() string {
	p := &page{View: View{Piped: true}}
	p.line("# guests of socket_vmnet2 at " + s.Daemon.Socket)
	type guest struct {
		ip   netip.Addr
		name string
	}
	var guests []guest
	add := func(ip netip.Addr, names ...string) {
		name := ""
		for _, n := range names {
			name = cmp.Or(name, label(n))
		}
		known := func(g guest) bool { return g.ip == ip || g.name == name }
		if ip.IsValid() && name != "" && !slices.ContainsFunc(guests, known) {
			guests = append(guests, guest{ip.WithZone(""), name})
		}
	}
	if d := s.Network.DHCP; d != nil {
		for _, l := range d.Leases {
			if l.Name != "" { // first, since the network's DNS has these
				add(l.IP, l.Name)
			}
		}
		for _, l := range d.Leases {
			add(l.IP, l.Hostname)
		}
	}
	for _, c := range s.Clients {
		add(c.IP, c.Hostname, c.Name)
	}
	slices.SortFunc(guests, func(a, b guest) int { return a.ip.Compare(b.ip) })
	for _, g := range guests {
		p.line(fmt.Sprintf("%s %s.%s %s", g.ip, g.name, domain, g.name))
	}
	return p.text.String()
}

// others are the characters that host names do not have.
var others = regexp.MustCompile("[^a-z0-9]+")

// label is a name as a part of a host name; empty if nothing is left of it, or others have it.
func label(name string) string {
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	name = others.ReplaceAllString(name, "-")
	name = strings.Trim(name[:min(len(name), maxLabel)], "-")
	if slices.Contains(reserved, name) || strings.Trim(name, "0123456789") == "" { // digits alone could be an address
		return ""
	}
	return name
}
