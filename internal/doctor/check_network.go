// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/migrate"
	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// A net4 is a subnet that a daemon has, or would make.
type net4 struct {
	prefix  netip.Prefix
	gateway netip.Addr
	name    string // of what makes it
	socket  string
	runs    bool
	vmnet   bool // on the host there is an interface for it
}

// nets are all subnets that are known, the ones that run first.
func (f *facts) nets() []net4 {
	var running, others []net4
	add := func(n net4) {
		for _, known := range append(running, others...) {
			if migrate.SamePath(known.socket, n.socket) {
				return
			}
		}
		if !n.prefix.IsValid() {
			return
		}
		if n.runs {
			running = append(running, n)
		} else {
			others = append(others, n)
		}
	}
	for _, p := range f.places {
		if p.Status != nil {
			nw := p.Status.Network
			add(net4{nw.Subnet, nw.Gateway, fmt.Sprintf("the daemon at %s", p.Socket), p.Socket, true, nw.Backend == "vmnet"})
		}
	}
	parsed := func(subnet, gateway, name, socket string, runs bool) {
		prefix, _ := netip.ParsePrefix(subnet)
		addr, _ := netip.ParseAddr(gateway)
		add(net4{prefix, addr, name, socket, runs, f.GOOS == "darwin"})
	}
	for _, d := range f.plan.Daemons {
		parsed(d.Subnet, d.Gateway, fmt.Sprintf("the daemon at %s", d.Socket), d.Socket, true)
	}
	for _, j := range f.plan.Jobs {
		parsed(j.Subnet, j.Gateway, "the job "+j.Label, j.Socket, false)
	}
	for _, n := range f.plan.Networks {
		parsed(n.Subnet, n.Gateway, n.Tool+"'s network "+n.Name, n.Socket, false)
	}
	return append(running, others...)
}

// checkSubnets compares the subnets with each other.
func checkSubnets(x *exam) {
	all := x.nets()
	clash := false
	for i, a := range all {
		for _, b := range all[i+1:] {
			if !a.prefix.Overlaps(b.prefix) || !x.asked(a.socket) && !x.asked(b.socket) {
				continue
			}
			clash = true
			severity := status.Warning
			if a.runs && b.runs && a.vmnet && b.vmnet {
				severity = status.Error
			}
			if !a.vmnet && !b.vmnet {
				severity = status.Notice // embedded networks do not meet
			}
			text := fmt.Sprintf("%s and %s have the same subnet, %s", a.name, b.name, a.prefix)
			if a.prefix != b.prefix {
				text = fmt.Sprintf("%s and %s have subnets with the same addresses, %s and %s", a.name, b.name, a.prefix, b.prefix)
			}
			x.find(severity, text,
				map[string]any{"sockets": []string{a.socket, b.socket}, "subnets": []string{a.prefix.String(), b.prefix.String()}}, x.anotherNet(b)...)
		}
	}
	if !clash {
		x.ok("no two networks have the same subnet (%d known)", len(all))
	}
}

// anotherNet proposes a subnet that is free, for n.
func (x *exam) anotherNet(n net4) []string {
	const otherwise = "give one of them another --vmnet-gateway; socket_vmnet2 try finds a free subnet"
	table, err := x.table()
	if table == nil || err != nil {
		return []string{otherwise}
	}
	bits := min(max(n.prefix.Bits(), freenet.MinBits), freenet.MaxBits)
	taken := x.proposed
	for _, other := range x.nets() {
		taken = append(taken, other.prefix)
	}
	free, err := table.Choose(bits, taken...)
	if err != nil {
		return []string{otherwise}
	}
	x.proposed = append(x.proposed, free)
	fix := []string{
		fmt.Sprintf("%s is free: start %s with", free, n.name),
		command("--vmnet-gateway=" + free.Addr().Next().String()),
	}
	if strings.Contains(n.name, "'s network ") {
		fix = append(fix, "by its gateway, dhcpEnd and netmask in Lima's networks.yaml, and then limactl sudoers")
	}
	return fix
}

// table is the host's, nil on a staged system.
func (f *facts) table() (*freenet.Table, error) {
	if f.Table == nil {
		return nil, nil
	}
	return f.Table()
}

// checkOverlap compares the subnets with what this host uses.
func checkOverlap(x *exam) {
	table, err := x.table()
	if err != nil {
		x.skip(false, "%v", err)
	}
	if table == nil {
		if err == nil {
			x.skip(false, "interfaces and routes: on a staged system there are none")
		}
		return
	}
	all := x.nets()
	clash := false
	for _, n := range all {
		if !x.asked(n.socket) {
			continue
		}
		var names []string
		for _, c := range table.Overlaps(n.prefix) {
			if !n.itself(c) {
				names = append(names, c.String())
			}
		}
		if len(names) == 0 {
			continue
		}
		clash = true
		severity := status.Warning
		if n.runs {
			severity = status.Error
		}
		x.find(severity, fmt.Sprintf("%s has %s, and so has this host: %s; guests do not reach what is there, and the host may not reach guests", n.name, n.prefix, list(names)),
			map[string]any{"socket": n.socket, "subnet": n.prefix.String(), "overlaps": names}, x.anotherNet(n)...)
	}
	if !clash && err == nil {
		x.ok("nothing else on this host uses the networks' subnets (%d known)", len(all))
	}
}

// itself tells whether c is what vmnet makes on the host for this very network: a bridge with the gateway's address, and the
// route that belongs to it.
func (n net4) itself(c freenet.Conflict) bool {
	if !n.runs || !n.vmnet {
		return false
	}
	return c.Prefix.Addr() == n.gateway || strings.Contains(c.Name, "bridge") && c.Prefix.Masked() == n.prefix.Masked()
}

// reachTime is how long a guest has for its answer.
const reachTime = 3 * time.Second

// reachPort is one that guests refuse or answer: both is an answer.
const reachPort = "22"

// checkReach tries to reach one guest, and explains.
func checkReach(x *exam) {
	if !x.Reach.IsValid() {
		return
	}
	data := map[string]any{"address": x.Reach.String()}
	if x.Dial == nil {
		x.skip(false, "--reach=%s: on a staged system there are no guests", x.Reach)
		return
	}
	p, guest := x.guest(x.Reach)
	if p != nil && p.Status.Network.Backend == "usernet" {
		x.embedded(p, data)
		return
	}
	ctx, cancel := context.WithTimeout(x.ctx, reachTime)
	defer cancel()
	c, err := x.Dial(ctx, "tcp", net.JoinHostPort(x.Reach.String(), reachPort))
	if err == nil {
		_ = c.Close()
	}
	switch {
	case err == nil, errors.Is(err, syscall.ECONNREFUSED):
		x.find(OK, fmt.Sprintf("%s answers", x.Reach), data)
	case p == nil:
		x.find(status.Warning, fmt.Sprintf("no daemon that can be asked has a guest with the address %s, and it does not answer: %v", x.Reach, err), data,
			"compare it with the guests' addresses, as the daemons know them:", command("socket_vmnet2 status"))
	case x.GOOS == "darwin" && errors.Is(err, syscall.EHOSTUNREACH):
		x.find(status.Error, fmt.Sprintf("the guest %s is there (client %d of the daemon at %s), but macOS says \"No route to host\" to this program: "+
			"that is how Local Network privacy (macOS 15 and later) keeps a program from the network", x.Reach, guest.ID, p.Socket), data,
			"allow it to the app that you run this in (Terminal, your editor, ...): System Settings, Privacy & Security, Local Network",
			"a job of launchd that no app has started is never asked about: run it as root, or from an app",
			"then try again, from that app:", command("socket_vmnet2 doctor --reach="+x.Reach.String()))
	case isTimeout(err), errors.Is(err, context.DeadlineExceeded):
		x.find(status.Warning, fmt.Sprintf("the guest %s is there (client %d of the daemon at %s), but does not answer within %v: its own firewall drops what it gets, or it hangs",
			x.Reach, guest.ID, p.Socket, reachTime), data, "look at what arrives there:", command(fmt.Sprintf("sudo socket_vmnet2 capture --client=%d --count=20 --socket=%s", guest.ID, shell.Quote(p.Socket))))
	default:
		x.find(status.Warning, fmt.Sprintf("the guest %s is there (client %d of the daemon at %s), but cannot be reached: %v", x.Reach, guest.ID, p.Socket, err), data,
			"see whether another interface or a VPN has taken the subnet: the check \"overlap\" above")
	}
}

// guest finds who has an address.
func (x *exam) guest(addr netip.Addr) (*place, *status.Client) {
	for _, p := range x.places {
		if p.Status == nil {
			continue
		}
		for i, c := range p.Status.Clients {
			if c.IP == addr {
				return p, &p.Status.Clients[i]
			}
		}
	}
	return nil, nil
}

// embedded explains that the embedded network has no interface on the host.
func (x *exam) embedded(p *place, data map[string]any) {
	var ways []string
	if u := p.Status.Network.Usernet; u != nil {
		for _, f := range u.Forwards {
			if host, _, err := net.SplitHostPort(f.Guest); err == nil && host == x.Reach.String() {
				ways = append(ways, f.Proto+" "+f.Host)
			}
		}
	}
	text := fmt.Sprintf("%s is on the embedded network of the daemon at %s, which has no interface on this host: it is reached by forwarded ports only", x.Reach, p.Socket)
	if len(ways) > 0 {
		x.find(OK, text+", here "+list(ways), data)
		return
	}
	x.find(status.Warning, text+", and none leads there", data, "start the daemon with a forward, such as",
		command("--vmnet-forward=tcp:127.0.0.1:2222:"+x.Reach.String()+":22"))
}
