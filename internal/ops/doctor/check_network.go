// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// A subnet is one that a daemon has, or would make.
type subnet struct {
	prefix  netip.Prefix
	gateway netip.Addr
	name    string // of what makes it
	socket  string
	runs    bool
	vmnet   bool         // on the host there is an interface for it
	free    netip.Prefix // what a fix proposes in its place; zero: nothing so far
}

// findSubnets collects all that are known, one for each socket, the ones that run first.
func (x *exam) findSubnets() {
	add := func(n subnet) {
		if n.prefix.IsValid() && !slices.ContainsFunc(x.subnets, func(known *subnet) bool { return find.SamePath(known.socket, n.socket) }) {
			x.subnets = append(x.subnets, &n)
		}
	}
	for _, k := range x.telling() {
		nw := k.Status.Network
		add(subnet{nw.Subnet, nw.Gateway, "the daemon at " + k.Socket, k.Socket, true, nw.Backend == "vmnet", netip.Prefix{}})
	}
	for i, s := range x.Setups() {
		name, runs := s.By, i < len(x.Servers)
		if runs {
			name = "the daemon at " + s.Socket
		}
		add(subnet{s.Subnet, s.Gateway, name, s.Socket, runs, x.GOOS == "darwin", netip.Prefix{}})
	}
}

// checkSubnets compares the subnets with each other.
func checkSubnets(x *exam) {
	for i, a := range x.subnets {
		for _, b := range x.subnets[i+1:] {
			if !a.prefix.Overlaps(b.prefix) || !x.asked(a.socket) && !x.asked(b.socket) {
				continue
			}
			severity := status.Warning
			switch {
			case a.runs && b.runs && a.vmnet && b.vmnet:
				severity = status.Error
			case !a.vmnet && !b.vmnet:
				severity = status.Notice // embedded networks do not meet
			}
			text := fmt.Sprintf("%s and %s have the same subnet, %s", a.name, b.name, a.prefix)
			if a.prefix != b.prefix {
				text = fmt.Sprintf("%s and %s have subnets with the same addresses, %s and %s", a.name, b.name, a.prefix, b.prefix)
			}
			x.report(severity, x.anotherNet(b), "%s", text)
		}
	}
}

// anotherNet proposes a subnet that is free, for n.
func (x *exam) anotherNet(n *subnet) []string {
	if !n.free.IsValid() && x.table != nil && x.tableErr == nil {
		var taken []netip.Prefix
		for _, other := range x.subnets {
			taken = append(taken, other.prefix, other.free)
		}
		n.free, _ = x.table.Choose(n.prefix.Bits(), taken...)
	}
	if !n.free.IsValid() {
		return []string{"give one of them another --vmnet-gateway; socket_vmnet2 try finds a free subnet"}
	}
	fix := []string{fmt.Sprintf("%s is free: start %s with", n.free, n.name), "    --vmnet-gateway=" + n.free.Addr().Next().String()}
	if strings.Contains(n.name, "'s network ") {
		fix = append(fix, "by its gateway, dhcpEnd and netmask in Lima's networks.yaml, and then limactl sudoers")
	}
	return fix
}

// checkOverlap compares the subnets with what this host uses.
func checkOverlap(x *exam) {
	if x.tableErr != nil {
		x.skip(false, "%v", x.tableErr)
	}
	if x.table == nil {
		return
	}
	for _, n := range x.subnets {
		var names []string
		for _, c := range x.table.Overlaps(n.prefix) {
			if !n.itself(c) && x.asked(n.socket) {
				names = append(names, c.String())
			}
		}
		if len(names) == 0 {
			continue
		}
		severity := status.Warning
		if n.runs {
			severity = status.Error
		}
		x.report(severity, x.anotherNet(n), "%s has %s, and so has this host: %s; guests do not reach what is there, and the host may not reach guests", n.name, n.prefix, printable.List(names))
	}
}

// itself tells whether c is what vmnet makes on the host for this very network: a bridge with the gateway's address, and the
// route that belongs to it.
func (n *subnet) itself(c freenet.Conflict) bool {
	return n.runs && n.vmnet && (c.Prefix.Addr() == n.gateway || strings.Contains(c.Name, "bridge") && c.Prefix.Masked() == n.prefix.Masked())
}

// reachTime is how long a guest has for its answer.
const reachTime = 3 * time.Second

// reachPort is one that guests refuse or answer: both is an answer.
const reachPort = "22"

// checkReach tries to reach one guest, and explains.
func checkReach(x *exam) {
	switch {
	case !x.Reach.IsValid():
		return
	case x.Dial == nil:
		x.skip(false, "--reach=%s: on a staged system there are no guests", x.Reach)
		return
	}
	k, id := x.guest(x.Reach)
	if k != nil && k.Status.Network.Backend == "usernet" {
		x.embedded(k)
		return
	}
	ctx, cancel := context.WithTimeout(x.ctx, reachTime)
	defer cancel()
	c, err := x.Dial(ctx, "tcp", net.JoinHostPort(x.Reach.String(), reachPort))
	switch {
	case err == nil:
		_ = c.Close()
		x.ok("%s answers", x.Reach)
	case errors.Is(err, syscall.ECONNREFUSED):
		x.ok("%s answers", x.Reach)
	case k == nil:
		x.report(status.Warning, []string{"compare it with the guests' addresses, as the daemons know them:", "    socket_vmnet2 status"},
			"no daemon that can be asked has a guest with the address %s, and it does not answer: %v", x.Reach, err)
	default:
		x.unreached(fmt.Sprintf("the guest %s is there (client %d of the daemon at %s)", x.Reach, id, k.Socket), k, id, err)
	}
}

// unreached explains why a guest that is there does not answer.
func (x *exam) unreached(guest string, k *socket, id uint64, err error) {
	switch {
	case x.GOOS == "darwin" && errors.Is(err, syscall.EHOSTUNREACH):
		x.report(status.Error, []string{
			"allow it to the app that you run this in (Terminal, your editor, ...): System Settings, Privacy & Security, Local Network",
			"a job of launchd that no app has started is never asked about: run it as root, or from an app",
			"or exempt the network for every program (macOS 15.5 and later), and restart the Mac:",
			fmt.Sprintf("    sudo defaults write %s AllowedEthernetLocalNetworkAddresses -array-add %s", localNetwork, k.Status.Network.Subnet),
			fmt.Sprintf("    sudo defaults write %s AllowedWiFiLocalNetworkAddresses -array-add %s", localNetwork, k.Status.Network.Subnet),
			"then try again, from that app:", "    socket_vmnet2 doctor --reach=" + x.Reach.String(),
		}, "%s, but macOS says \"No route to host\" to this program: that is how Local Network privacy (macOS 15 and later) keeps a program from the network", guest)
	case isTimeout(err):
		x.report(status.Warning, []string{"look at what arrives there:", fmt.Sprintf("    sudo socket_vmnet2 capture --client=%d --count=20 %s", id, printable.Quote(k.Socket))},
			"%s, but does not answer within %v: its own firewall drops what it gets, or it hangs", guest, reachTime)
	default:
		x.report(status.Warning, []string{"see whether another interface or a VPN has taken the subnet: the check \"overlap\" above"}, "%s, but cannot be reached: %v", guest, err)
	}
}

// guest finds the client that has an address.
func (x *exam) guest(addr netip.Addr) (*socket, uint64) {
	for _, k := range x.telling() {
		for _, c := range k.Status.Clients {
			if c.IP == addr {
				return k, c.ID
			}
		}
	}
	return nil, 0
}

// embedded explains that the embedded network has no interface on the host.
func (x *exam) embedded(k *socket) {
	var ways []string
	if u := k.Status.Network.Usernet; u != nil {
		for _, f := range u.Forwards {
			if host, _, err := net.SplitHostPort(f.Guest); err == nil && host == x.Reach.String() {
				ways = append(ways, f.Proto+" "+f.Host)
			}
		}
	}
	text := fmt.Sprintf("%s is on the embedded network of the daemon at %s, which has no interface on this host: it is reached by forwarded ports only", x.Reach, k.Socket)
	if len(ways) > 0 {
		x.ok("%s, here %s", text, printable.List(ways))
		return
	}
	x.report(status.Warning, []string{"start the daemon with a forward, such as", "    --vmnet-forward=tcp:2222=" + x.Reach.String() + ":22"}, "%s, and none leads there", text)
}
