// SPDX-License-Identifier: Apache-2.0

package freenet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/net/route"
)

// routes reads the kernel's routes.
func routes() ([]Conflict, error) {
	rib, err := route.FetchRIB(syscall.AF_INET, route.RIBTypeRoute, 0)
	if err != nil {
		return nil, err
	}
	messages, err := route.ParseRIB(route.RIBTypeRoute, rib)
	if err != nil {
		return nil, fmt.Errorf("the kernel's answer: %w", err)
	}
	return routesIn(messages)
}

// errHidden: there is always a route for the loopback interface.
var errHidden = errors.New("macOS tells this program of no route; it may hide them from programs without rights: run it with sudo")

// routesIn are the routes that the kernel's messages tell of. None at all does not mean that every network is free.
func routesIn(messages []route.Message) (list []Conflict, err error) {
	err = errHidden
	for _, m := range messages {
		r, ok := m.(*route.RouteMessage)
		if ok {
			err = nil
		}
		if !ok || r.Flags&syscall.RTF_UP == 0 || len(r.Addrs) <= syscall.RTAX_NETMASK {
			continue
		}
		dst, ok := r.Addrs[syscall.RTAX_DST].(*route.Inet4Addr)
		if !ok {
			continue
		}
		n := 32
		if r.Flags&syscall.RTF_HOST == 0 {
			mask, ok := r.Addrs[syscall.RTAX_NETMASK].(*route.Inet4Addr)
			if !ok {
				continue // no mask: the default route
			}
			n, _ = net.IPMask(mask.IP[:]).Size()
		}
		list = append(list, Conflict{byRoute(interfaceName(r.Index)), netip.PrefixFrom(netip.AddrFrom4(dst.IP), n)})
	}
	return list, err
}
