// SPDX-License-Identifier: Apache-2.0

// Package freenet finds IPv4 networks that nothing on this host uses, and tells what a given one would collide with: addresses
// of interfaces, routes, and networks that other programs choose without asking.
package freenet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// A Conflict is something that uses addresses.
type Conflict struct {
	Name   string       // as in "en0", "a route by utun4" or "Lima's user network"
	Prefix netip.Prefix // not masked: an interface's has its address
}

func (c Conflict) String() string { return c.Name + " " + c.Prefix.String() }

// A Table is what uses addresses on a host.
type Table struct {
	used []Conflict // by interfaces and routes
}

// NewTable makes a Table of the interfaces' addresses and the routes. What could not collide with anything is left out: routes
// for more than a /8 are those for everything, also in the parts in which a VPN sets them, and the longer one wins.
func NewTable(interfaces, routes []Conflict) *Table {
	t := &Table{}
	own := map[netip.Prefix]bool{} // networks, each once
	for _, c := range interfaces {
		if c.Prefix.Addr().Is4() && !own[c.Prefix.Masked()] {
			own[c.Prefix.Masked()] = true
			t.used = append(t.used, c)
		}
	}
	n := len(t.used)
	for _, c := range routes {
		p := c.Prefix.Masked()
		if !p.Addr().Is4() || p.Bits() < shortestRoute || own[p] {
			continue
		}
		own[p] = true
		if p.IsSingleIP() && len(overlaps(t.used[:n], p)) > 0 {
			continue // a neighbour's
		}
		t.used = append(t.used, c)
	}
	return t
}

// shortestRoute is the length in bits of the shortest prefix that is meant as a network: 10.0.0.0/8.
const shortestRoute = 8

// Overlaps returns what on this host uses addresses of p, and nil if p is free. Networks that only might be used, because
// another program would choose them, are not among it.
func (t *Table) Overlaps(p netip.Prefix) []Conflict { return overlaps(t.used, p) }

func overlaps(list []Conflict, p netip.Prefix) (found []Conflict) {
	for _, c := range list {
		if c.Prefix.Overlaps(p) {
			found = append(found, c)
		}
	}
	return found
}

// blocks are where networks are chosen from (RFC 1918), in this order. first is where the search begins.
var blocks = []struct {
	prefix netip.Prefix
	first  netip.Addr
}{
	{netip.MustParsePrefix("192.168.0.0/16"), netip.MustParseAddr("192.168.107.0")}, // behind socket_vmnet's own
	{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParseAddr("10.112.0.0")},        // behind Kubernetes' services
	{netip.MustParsePrefix("172.16.0.0/12"), netip.MustParseAddr("172.27.0.0")},     // behind the first of Docker's
}

// minBits and maxBits bound the networks that Choose can find, by the length of their prefix.
const (
	minBits = 8
	maxBits = 30
)

// Choose returns the first network that nothing uses with a prefix of length n, or the nearest to that which there can be: no
// interface, no route, no network that other programs are known to choose, and none of taken. The order is always the same. The error
// names what is in the way.
func (t *Table) Choose(n int, taken ...netip.Prefix) (netip.Prefix, error) {
	n = min(max(n, minBits), maxBits)
	var inTheWay []Conflict
	for _, b := range blocks {
		inTheWay = append(inTheWay, overlaps(t.used, b.prefix)...)
		if n < b.prefix.Bits() {
			continue
		}
		used := overlaps(slices.Concat(t.used, reserved), b.prefix)
		for _, p := range taken {
			used = append(used, Conflict{"another network", p})
		}
		size, begin := uint32(1)<<(32-n), toUint(b.prefix.Addr())
		count := uint32(1) << (n - b.prefix.Bits())
		for i := range count {
			at := ((toUint(b.first)-begin)/size + i) % count
			p := netip.PrefixFrom(fromUint(begin+at*size), n)
			if !slices.ContainsFunc(used, func(c Conflict) bool { return c.Prefix.Overlaps(p) }) {
				return p, nil
			}
		}
	}
	slices.SortStableFunc(inTheWay, func(a, b Conflict) int { return a.Prefix.Bits() - b.Prefix.Bits() }) // what takes most first
	var names []string
	for _, c := range append(inTheWay, reserved...)[:mostNamed] {
		names = append(names, c.String())
	}
	return netip.Prefix{}, fmt.Errorf("no private network with a prefix of %d bits is free: in the way are %s, and others", n, strings.Join(names, ", "))
}

// mostNamed bounds the conflicts in an error's text.
const mostNamed = 8

func toUint(a netip.Addr) uint32 { return binary.BigEndian.Uint32(a.AsSlice()) }

func fromUint(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))
}

// reserved are networks that may come up later, and at the time of the choice be on no interface: what routers, macOS and other
// programs for virtual machines and containers use unless they are told otherwise. A network among them can still be asked for.
var reserved = []Conflict{
	use("many home routers", "192.168.0.0/23"), // 192.168.0.0/24 and 192.168.1.0/24
	use("macOS's Internet Sharing", "192.168.2.0/24"),
	use("macOS's vmnet", "192.168.64.0/24"),
	use("socket_vmnet, shared", "192.168.105.0/24"),
	use("socket_vmnet, host", "192.168.106.0/24"),
	use("Lima's user network", "192.168.5.0/24"),
	use("Lima's user-v2 network", "192.168.104.0/24"),
	use("Rancher Desktop, shared", "192.168.205.0/24"),
	use("Rancher Desktop, host", "192.168.206.0/24"),
	use("podman machine", "192.168.127.0/24"), // gvproxy's default
	use("minikube's KVM driver", "192.168.39.0/24"),
	use("minikube's Docker driver", "192.168.49.0/24"),
	use("VirtualBox", "192.168.56.0/24"),
	use("Docker Desktop", "192.168.65.0/24"),
	use("libvirt", "192.168.122.0/24"),

	use("QEMU's user network", "10.0.2.0/24"),
	use("Podman", "10.88.0.0/16"),
	use("Kubernetes' services", "10.96.0.0/12"),
	use("Kubernetes' pods", "10.244.0.0/16"),
	use("k3s", "10.42.0.0/15"), // pods and services
	use("Docker", "172.17.0.0/16"),
	use("Docker Compose", "172.18.0.0/15"), // its first networks
	use("Docker Compose", "172.20.0.0/14"),
}

func use(name, prefix string) Conflict { return Conflict{name, netip.MustParsePrefix(prefix)} }

// System reads what uses addresses on this host. The Table is never nil: an error tells what it lacks.
func System() (*Table, error) {
	own, err := interfaces()
	through, rerr := routes()
	if rerr != nil {
		rerr = fmt.Errorf("the routing table cannot be read: %w", rerr)
	}
	return NewTable(own, through), errors.Join(err, rerr)
}

// interfaces are the addresses of this host's interfaces, also of those that are down: they may come up.
func interfaces() (list []Conflict, err error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("the interfaces cannot be listed: %w", err)
	}
	var errs []error
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil { // it has gone meanwhile
			errs = append(errs, fmt.Errorf("the addresses of %s cannot be listed: %w", i.Name, err))
			continue
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				list = append(list, Conflict{i.Name, p})
			}
		}
	}
	return list, errors.Join(errs...)
}

// interfaceName names the interface of a route.
func interfaceName(index int) string {
	if i, err := net.InterfaceByIndex(index); err == nil {
		return i.Name
	}
	return fmt.Sprintf("interface %d", index)
}

// byRoute is the name of what a route leads through.
func byRoute(name string) string { return "a route by " + name }
