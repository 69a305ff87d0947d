// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// scenes are all there are, in the order of the page.
var scenes = []scene{
	{name: "healthy", play: healthy},
	{name: "dhcp-off", play: dhcpOff},
	{name: "bootpd", play: bootpd, sim: true},
	{name: "pool", play: pool},
	{name: "duplicate", play: duplicate},
	{name: "gateway", play: gateway},
	{name: "deaf", play: deaf},
	{name: "overlap", play: overlap, apart: true},
	{name: "tour", play: tour, tools: true},
}

// The guests' MAC addresses.
const (
	macAlpha = "52:54:00:00:00:0a"
	macBeta  = "52:54:00:00:00:0b"
	macGamma = "52:54:00:00:00:0c"
	macDelta = "52:54:00:00:00:0d"
)

// What is typed most.
const (
	cmdStatus = "socket_vmnet2 status " + shownDir + "/sock"
	cmdLog    = "grep WARN log"

	optGateway = "--vmnet-gateway=192.168.105.1"
)

// healthy: nothing is wrong, and nothing is said to be.
func healthy(s *stage) {
	s.page.section("status")
	s.start(optGateway)
	alpha, beta := s.guest("alpha", macAlpha), s.guest("beta", macBeta)
	alpha.do("ask")
	beta.do("ask")
	alpha.do("lease")
	ip, _, _ := strings.Cut(beta.do("lease"), "/")
	alpha.do("ping " + ip)
	s.healthy()
	out := s.show(cmdStatus)
	s.names(out, "alpha", "beta", ip, "nothing to report")
	s.silent(out, status.Warning+":", status.Error+":")
	if log, _ := s.run(cmdLog); log != "" {
		s.fault(fmt.Errorf("a daemon in order warns: %s", log))
	}
}

// dhcpOff: the daemon was told not to serve DHCP, and a guest waits for it.
func dhcpOff(s *stage) {
	s.page.section("wrong")
	s.start(optGateway, "--vmnet-disable-dhcp")
	alpha := s.guest("alpha", macAlpha)
	alpha.do("ask")
	s.sick(status.DHCPDisabled)
	out := s.show(cmdStatus)
	s.names(out, "dhcp", "--vmnet-disable-dhcp", "alpha")
	s.names(s.show(cmdLog), "dhcp", "--vmnet-disable-dhcp")
	s.page.section("right")
	s.restart(optGateway)
	alpha.do("lease")
	s.healthy()
	s.names(s.show(cmdStatus), "nothing to report")
}

// bootpd: macOS's firewall keeps DHCP from bootpd, on the simulator.
func bootpd(s *stage) {
	s.page.section("wrong")
	s.start(optGateway)
	sim, err := vmnetsim.Open(s.dir + "/sim")
	if s.fault(err) {
		return
	}
	defer func() { s.fault(sim.Close()) }()
	sim.Set(vmnetsim.Host, 2)
	alpha := s.guest("alpha", macAlpha)
	alpha.do("ask")
	s.sick(status.NoDHCPAnswer)
	out := s.show(cmdStatus)
	s.names(out, "bootpd", "firewall", "socketfilterfw", "/usr/libexec/bootpd")
	s.names(s.show(cmdLog), "bootpd")
	s.page.section("right")
	sim.Set(vmnetsim.Host, 1)
	alpha.do("lease")
	s.healthy()
	s.names(s.show(cmdStatus), "nothing to report")
}

// pool: more guests than addresses.
func pool(s *stage) {
	s.page.section("wrong")
	s.start(optGateway, "--vmnet-dhcp-end=192.168.105.4")
	for i, mac := range []string{macAlpha, macBeta, macGamma} {
		g := s.guest([]string{"alpha", "beta", "gamma"}[i], mac)
		g.do("ask")
		g.do("lease")
	}
	delta := s.guest("delta", macDelta)
	delta.do("ask")
	s.until("the one without a lease is named", func() bool {
		st := s.status()
		for _, p := range st.Health {
			if p.Code == status.PoolExhausted && p.Severity == status.Error {
				return true
			}
		}
		return false
	})
	out := s.show(cmdStatus)
	s.names(out, "leased", "192.168.105.4", "--vmnet-dhcp-end")
	s.names(s.show(cmdLog), "leased")
	s.page.section("right")
	s.restart(optGateway, "--vmnet-dhcp-end=192.168.105.254")
	delta.do("lease")
	s.healthy()
	// Who is back first has the first number: not the same each time.
	s.names(s.show(cmdStatus+" | grep -e ^dhcp -e MAC -e delta -e ^health"), "nothing to report")
}

// duplicate: a guest has by hand the address that another one has leased.
func duplicate(s *stage) {
	s.page.section("wrong")
	s.start(optGateway)
	alpha, beta := s.guest("alpha", macAlpha), s.guest("beta", macBeta)
	alpha.do("ask")
	ip := alpha.do("lease")
	beta.do("static " + ip)
	s.sick(status.DuplicateIP)
	plain, _, _ := strings.Cut(ip, "/")
	s.names(s.show(cmdStatus), plain, "alpha", "beta", macAlpha, macBeta)
	s.names(s.show(cmdLog), plain)
	s.page.section("right")
	beta.do("static 192.168.105.200/24")
	s.healthy()
	s.names(s.show(cmdStatus), "nothing to report", "192.168.105.200")
}

// gateway: a guest has by hand the address of the gateway.
func gateway(s *stage) {
	s.page.section("wrong")
	s.start(optGateway)
	alpha := s.guest("alpha", macAlpha)
	alpha.do("static 192.168.105.1/24")
	s.sick(status.DuplicateIP)
	s.names(s.show(cmdStatus), "192.168.105.1", "gateway", "alpha")
}

// deaf: a VMM was stopped, and others go on sending to its guest.
func deaf(s *stage) {
	s.page.section("wrong")
	s.start(optGateway)
	alpha, beta := s.guest("alpha", macAlpha), s.guest("beta", macBeta)
	alpha.do("ask")
	beta.do("ask")
	alpha.do("lease")
	ip, _, _ := strings.Cut(beta.do("lease"), "/")
	alpha.do("ping " + ip)
	if beta.in != nil {
		s.fault(beta.cmd.Process.Signal(syscall.SIGSTOP))
	}
	alpha.do("flood " + macBeta)
	s.sick(status.StalledClient)
	s.until("frames are dropped", func() bool { return drops(s.status()) > 0 })
	alpha.do("quiet")
	s.names(s.show(cmdStatus), "beta", "read", "stalled")
	s.page.section("right")
	if beta.in != nil {
		s.fault(beta.cmd.Process.Signal(syscall.SIGCONT))
	}
	beta.do("ping 192.168.105.1")
	s.healthy()
	s.names(s.show(cmdStatus), "nothing to report")
}

// drops is how many frames the clients lost.
func drops(st status.Status) (n uint64) {
	for _, c := range st.Clients {
		for _, k := range c.ToClient.Drops {
			n += k
		}
	}
	return n
}
