// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"maps"
	"net/netip"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway/dhcp"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway/dns"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// ErrBridged is why there is no gateway in bridged mode.
var ErrBridged = errors.New("bridged mode needs macOS vmnet; use --vmnet-mode=shared or host with the embedded network")

const (
	// defaultMTU is the default of Config.MTU.
	defaultMTU = 1500

	maxForwards = 1024
)

// A Config is what a gateway is to do. It goes to the gateway's process as JSON. Only Mode is required.
type Config struct {
	Mode      network.Mode // host or shared
	Gateway   netip.Addr   // IPv4; zero = 192.168.105.1
	PrefixLen int          // 8 to 30; 0 = 24
	DHCPEnd   netip.Addr   // last address to lease; zero = x.x.x.254

	DisableDHCP       bool
	NetworkIdentifier string // in host mode, any identifier means no DHCP, as in vmnet.framework

	// Reservations are addresses of the subnet, inside or outside of the DHCP range, that one guest gets and no other.
	Reservations []network.Reservation
	// Forwards lead ports of the host to guests. Guests see the gateway as the other end.
	Forwards []network.Forward

	MTU             int  // bytes, layer 3, 1280 to 16384; 0 = 1500
	DisableNAT44    bool // no way out: only the gateway, its name server and the host's loopback are left
	DisableDNSProxy bool // no name server, and DHCP names none
	Isolate         bool // guests do not hear of each other

	// DisableHostLoopback: the host has no alias, so that guests do not reach its loopback; host.internal has no address.
	DisableHostLoopback bool
	LoopbackPorts       []uint16 // the only ones that guests reach; none: all
	// Private is where the daemon listens for what is of this host and tells of all guests. No guest is led there by TCP; zero = nowhere.
	Private netip.AddrPort

	// DNSRecords are names the gateway resolves in addition to gateway.internal and host.internal.
	DNSRecords map[string]netip.Addr
	// ResolvConf is the file with the host's resolvers; empty = /etc/resolv.conf.
	ResolvConf string
}

// Domain is where the name server has the guests, by the name that each told the DHCP server. DHCP tells guests to look there for
// names without a dot.
const Domain = "vmnet.internal"

// hostName is the host's. Without an alias it has no address, and no other server is asked for one.
const hostName = "host.internal"

// dhcpConfig is what the DHCP server is to do.
func (g *gateway) dhcpConfig(leases []dhcp.Lease) dhcp.Config {
	p := &g.plan
	c := dhcp.Config{
		Subnet: p.Subnet, Gateway: p.Gateway, First: p.DHCPStart, Last: p.DHCPEnd, Reserved: p.Reserved(),
		Router: p.nat, DNS: p.dns, MTU: uint16(p.MTU), Fixed: map[[6]byte]netip.Addr{},
		Leases: leases, Log: g.log, NamesTaken: namesTaken(g.cfg.DNSRecords),
		Changed: func(l dhcp.Lease) { g.out.putMessage(KindLeased, l) },
	}
	for _, r := range g.cfg.Reservations {
		c.Fixed[[6]byte(r.MAC)] = r.Addr
	}
	if p.dns {
		c.Domain = Domain
	}
	return c
}

// dnsConfig adds our own names to the records that were asked for, which win.
func (g *gateway) dnsConfig() dns.Config {
	records := map[string]netip.Addr{"gateway.internal": g.plan.Gateway, hostName: g.plan.Alias}
	maps.Copy(records, g.cfg.DNSRecords)
	c := dns.Config{
		Domain: Domain, Records: records, Subnet: g.plan.Subnet, Forward: g.cfg.Mode == network.ModeShared,
		ResolvConf: g.cfg.ResolvConf,
	}
	if c.ResolvConf == "" {
		c.ResolvConf = "/etc/resolv.conf"
	}
	if g.dhcp != nil && !g.cfg.Isolate { // guests that may not reach each other need not know of each other
		c.Guests = g.dhcp
	}
	return c
}

// namesTaken are the names in Domain that records have. A record is never shadowed by a guest.
func namesTaken(records map[string]netip.Addr) map[string]bool {
	taken := map[string]bool{}
	for name := range records {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		if label, ok := strings.CutSuffix(name, "."+Domain); ok {
			taken[label] = true
		}
	}
	return taken
}
