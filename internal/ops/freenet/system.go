// SPDX-License-Identifier: Apache-2.0

package freenet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

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
