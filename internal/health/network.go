// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// startTime is how long a network may take to start: macOS holds a subnet for a while after its owner died, and the daemon tries
// for five seconds.
const startTime = 10 * time.Second

// networkNotRunning finds a network that has failed, or takes long to start.
func networkNotRunning(v *view) []finding {
	n := &v.Network
	p := status.Problem{Code: status.NetworkStart}
	switch n.State {
	case status.NetworkFailed:
		p.Severity = status.Error
		p.Text = fmt.Sprintf("The network has failed: %s.", n.Error)
		p.Fix = []string{"The error says what is in the way. Once that is removed, start the daemon again."}
	case status.NetworkStarting:
		p.Severity = status.Notice
		p.Text = "The network is still starting; clients are connected and wait."
		p.Fix = []string{"Wait: macOS may hold a subnet for a while after its owner has ended."}
		if since := v.since(status.NetworkStart, ""); !since.IsZero() && v.Now.Sub(since) >= startTime {
			p.Severity = status.Warning
		}
	default:
		return nil
	}
	if v.busy() != "" {
		p.Fix = busyFix
	}
	return []finding{{Problem: p}}
}

// busyFix is for VMNET_SHARING_SERVICE_BUSY.
var busyFix = []string{
	"Another program with virtual machines, or Internet Sharing, has this subnet. See who holds a bridge:",
	command("ifconfig | grep -A6 '^bridge'"),
	"Stop that program, switch Internet Sharing off (System Settings, General, Sharing), or start the daemon with another --vmnet-gateway.",
	"After a daemon was killed macOS may hold its subnet for some time; --vmnet-api=interface is affected less.",
}

// busyName is in the text of each error that comes of it.
const busyName = "VMNET_SHARING_SERVICE_BUSY"

// busy is what tells that macOS's sharing service refuses to start interfaces now; empty: nothing does.
func (v *view) busy() string {
	if strings.Contains(v.Network.Error, busyName) {
		return v.Network.Error
	}
	for i := range v.Clients {
		if strings.Contains(v.Clients[i].Error, busyName) {
			return v.Clients[i].Error
		}
	}
	if m := v.Network.Vmnet; m != nil && m.Shared > 0 && strings.Contains(m.LastFailure, busyName) {
		return m.LastFailure
	}
	return ""
}

// sharingBusy finds VMNET_SHARING_SERVICE_BUSY.
func sharingBusy(v *view) []finding {
	text := v.busy()
	if text == "" {
		return nil
	}
	return []finding{{Problem: status.Problem{
		Code: status.SharingBusy, Severity: status.Error, Fix: busyFix,
		Text:    fmt.Sprintf("macOS's sharing service refuses to start interfaces: %s.", text),
		Clients: ids(v.which(func(c *status.Client) bool { return strings.Contains(c.Error, busyName) })),
	}}}
}

// subnetOverlap finds other networks of this host with the same addresses.
func subnetOverlap(v *view) []finding {
	if len(v.overlaps) == 0 {
		return nil
	}
	n := &v.Network
	var others []string
	for i, c := range v.overlaps {
		if i == maxNamed {
			others = append(others, fmt.Sprintf("%d more", len(v.overlaps)-i))
			break
		}
		others = append(others, c.String())
	}
	consequence := "guests cannot reach what is there"
	if n.Backend == vmnet {
		consequence = "frames for guests may go there, or guests cannot reach what is there"
	}
	fix := []string{"Take away what is in the way if it is not needed (a VPN, another network for virtual machines), or choose another subnet: start the daemon with"}
	if v.free.IsValid() {
		option := fmt.Sprintf("--vmnet-gateway=%s", v.free.Masked().Addr().Next())
		if v.free.Bits() != 24 {
			option += " --vmnet-mask=" + mask(v.free)
		}
		fix = append(fix, command("%s", option))
	} else {
		fix[0] += " another --vmnet-gateway."
	}
	return []finding{{Problem: status.Problem{
		Code: status.SubnetOverlap, Severity: status.Warning, Fix: fix,
		Text: fmt.Sprintf("This network, %s, overlaps %s: %s.", n.Subnet, strings.Join(others, ", "), consequence),
	}, of: n.Subnet.String()}}
}

// mask is the network mask of p.
func mask(p netip.Prefix) string {
	b := ^uint32(0) << (32 - p.Bits())
	return netip.AddrFrom4([4]byte{byte(b >> 24), byte(b >> 16), byte(b >> 8), byte(b)}).String()
}

// sharedInterface finds clients that share a vmnet interface though each should have one.
func sharedInterface(v *view) []finding {
	m := v.Network.Vmnet
	if m == nil || m.Shared == 0 || v.opts.OneInterface || m.LastFailure == "" {
		return nil
	}
	return []finding{{Problem: status.Problem{
		Code: status.SharedInterface, Severity: status.Warning,
		Clients: ids(v.which(func(c *status.Client) bool { return c.Interface.Kind == status.InterfaceShared })),
		Text: fmt.Sprintf("%d clients share one vmnet interface because no other could be started, which makes them slower; %d have their own: %s.",
			m.Shared, m.Own, m.LastFailure),
		Fix: []string{
			"macOS has 32 interfaces for all programs together. Stop virtual machines that are not needed: a client gets its own when another leaves.",
		},
	}}}
}

// forwards finds forwarded ports that lead nowhere.
// gatewayDown finds a gateway that has ended, until there is another.
func gatewayDown(v *view) []finding {
	u := v.Network.Usernet
	if u == nil || v.Network.State != status.NetworkRunning || u.Gateway.Error == "" {
		return nil
	}
	return []finding{{Problem: status.Problem{
		Code: status.GatewayDown, Severity: status.Error,
		Text: fmt.Sprintf("The network's gateway ended and is started again: %s. Until then guests have no DHCP, no DNS and no way out.", u.Gateway.Error),
		Fix:  []string{"See in the daemon's log what ended it. If the program was replaced meanwhile:", command("socket_vmnet2 upgrade %s", shell.Quote(v.Daemon.Socket))},
	}}}
}

func forwards(v *view) (found []finding) {
	u := v.Network.Usernet
	if u == nil || v.Network.State != status.NetworkRunning {
		return nil
	}
	known := map[netip.Addr]bool{}
	for i := range v.Clients {
		known[v.Clients[i].IP] = true
	}
	if d := v.Network.DHCP; d != nil {
		for _, l := range d.Leases {
			known[l.IP] = true
		}
	}
	for _, f := range u.Forwards {
		of := f.Proto + ":" + f.Host
		guest, err := netip.ParseAddrPort(f.Guest)
		switch {
		case f.Error != "":
			found = append(found, finding{Problem: status.Problem{
				Code: status.ForwardFailed, Severity: status.Error,
				Text: fmt.Sprintf("The forward of %s %s to %s takes no connections: %s.", f.Proto, f.Host, f.Guest, f.Error),
				Fix:  []string{"See which program has the port, and stop it or forward another port:", command("sudo lsof -nP -i %s:%s", strings.ToUpper(f.Proto), port(f.Host))},
			}, of: of})
		case err == nil && !known[guest.Addr()]:
			found = append(found, finding{Problem: status.Problem{
				Code: status.ForwardedUnknown, Severity: status.Notice,
				Text: fmt.Sprintf("The forward of %s %s leads to %s, an address that no guest has now.", f.Proto, f.Host, guest.Addr()),
				Fix:  []string{"Start the guest, or keep that address for it: --vmnet-reserve=MAC=" + guest.Addr().String() + "."},
			}, of: of})
		}
	}
	return found
}

// port is what follows the last colon.
func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
