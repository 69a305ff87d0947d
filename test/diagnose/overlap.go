// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// cmdDoctor keeps of doctor's findings those about overlaps: the others are about the machine that this is run on.
const cmdDoctor = "socket_vmnet2 doctor " + shownDir + "/sock | grep overlap:"

// vpnName is the interface that comes into the daemon's way.
const vpnName = "vpn0"

// overlap: a VPN begins to use the network's addresses while the daemon runs. Where this user may have no network of his own, the
// daemon is started on the subnet of an interface that this host has.
func overlap(s *stage) {
	used := netip.MustParsePrefix("192.168.105.77/24")
	apart := os.Getenv(sceneEnv) != ""
	if !apart {
		var name string
		var err error
		if used, name, err = ownInterface(); s.fault(err) {
			return
		}
		s.rename = strings.NewReplacer(name, vpnName)
	}
	s.page.section("wrong")
	s.start("--vmnet-gateway=" + used.Masked().Addr().Next().String())
	alpha := s.guest("alpha", macAlpha)
	alpha.do("ask")
	alpha.do("lease")
	if apart {
		s.fault(vpn(vpnName, used))
	}
	s.sick(status.SubnetOverlap)
	s.names(s.show(cmdStatus), used.Masked().String(), vpnName)
	s.names(s.show(cmdDoctor+" -A 3"), used.Masked().String(), vpnName, "--vmnet-gateway=")
	s.names(s.show(cmdLog), used.Masked().String(), vpnName)
	s.page.section("right")
	table, err := freenet.System()
	if s.fault(err) {
		return
	}
	free, err := table.Choose(24)
	if s.fault(err) {
		return
	}
	s.restart("--vmnet-gateway=" + free.Addr().Next().String())
	alpha.do("lease")
	s.healthy()
	s.names(s.show(cmdStatus), "nothing to report", free.String())
	s.silent(s.show(cmdDoctor), "error")
}

// ownInterface is a /24 that an interface of this host has an address in.
func ownInterface() (netip.Prefix, string, error) {
	list, err := net.Interfaces()
	if err != nil {
		return netip.Prefix{}, "", err
	}
	for _, i := range list {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
				return netip.PrefixFrom(p.Addr(), 24), i.Name, nil
			}
		}
	}
	return netip.Prefix{}, "", errors.New("this user may not make a network, and no interface has an address")
}
