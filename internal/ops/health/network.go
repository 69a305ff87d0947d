// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// Back ends and a mode, as the status names them.
const (
	usernet = "usernet"
	vmnet   = "vmnet"
	bridged = "bridged"
)

// startTime is how long a network may take to start: macOS holds a subnet for a while after its owner died, and the daemon tries
// for five seconds.
const startTime = 10 * time.Second

// networkNotRunning finds a network that has failed, or takes long to start.
func networkNotRunning(v *view) {
	var severity, text string
	var fix []string
	switch v.Network.State {
	case status.NetworkFailed:
		severity, text = status.Error, "The network has failed: "+v.Network.Error+"."
		fix = []string{"The error says what is in the way. Once that is removed, start the daemon again."}
	case status.NetworkStarting:
		severity, text = status.Notice, "The network is still starting; clients are connected and wait."
		fix = []string{"Wait: macOS may hold a subnet for a while after its owner has ended."}
		if since := v.since(status.NetworkStart, ""); !since.IsZero() && v.Now.Sub(since) >= startTime {
			severity = status.Warning
		}
	default:
		return
	}
	if v.busy() != "" {
		fix = busyFix
	}
	v.found(status.NetworkStart, severity, nil, fix, "%s", text)
}

// subnetOverlap finds other networks of this host with the same addresses.
func subnetOverlap(v *view) {
	n := &v.Network
	if n.Mode == bridged || !n.Subnet.IsValid() || v.opts.Addresses == nil {
		return
	}
	t, _ := v.opts.Addresses() // what it lacks it cannot warn of
	if t == nil {
		return
	}
	// On vmnet, the host's own interface in the network has the gateway's address.
	overlaps := slices.DeleteFunc(t.Overlaps(n.Subnet), func(c freenet.Conflict) bool { return n.Backend == vmnet && c.Prefix.Addr() == n.Gateway })
	if len(overlaps) == 0 {
		return
	}
	others := several(overlaps, ", ", freenet.Conflict.String)
	consequence := "guests cannot reach what is there"
	if n.Backend == vmnet {
		consequence = "frames for guests may go there, or guests cannot reach what is there"
	}
	fix := []string{"Take away what is in the way if it is not needed (a VPN, another network for virtual machines), or choose another subnet: start the daemon with"}
	if free, err := t.Choose(n.Subnet.Bits(), n.Subnet); err == nil {
		option := fmt.Sprintf("--vmnet-gateway=%s", free.Masked().Addr().Next())
		if bits := free.Bits(); bits != 24 {
			option += " --vmnet-mask=" + net.IP(net.CIDRMask(bits, 32)).String()
		}
		fix = []string{fix[0] + ":", command("%s", option)}
	} else {
		fix[0] += " another --vmnet-gateway."
	}
	f := v.found(status.SubnetOverlap, status.Warning, nil, fix, "This network, %s, overlaps %s: %s.", n.Subnet, others, consequence)
	f.of = n.Subnet.String()
}

// gatewayDown finds a gateway that has ended, until there is another.
func gatewayDown(v *view) {
	u := v.Network.Usernet
	if u == nil || v.Network.State != status.NetworkRunning || u.Gateway.Error == "" {
		return
	}
	fix := []string{"See in the daemon's log what ended it. If the program was replaced meanwhile:", command("socket_vmnet2 upgrade %s", v.socket())}
	v.found(status.GatewayDown, status.Error, nil, fix,
		"The network's gateway ended and is started again: %s. Until then guests have no DHCP, no DNS and no way out.", u.Gateway.Error)
}

// forwards finds forwarded ports that lead nowhere.
func forwards(v *view) {
	u := v.Network.Usernet
	if u == nil || v.Network.State != status.NetworkRunning {
		return
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
	for _, w := range u.Forwards {
		var f *finding
		guest, err := netip.ParseAddrPort(w.Guest)
		_, port, _ := net.SplitHostPort(w.Host)
		switch {
		case w.Error != "":
			f = v.found(status.ForwardFailed, status.Error, nil, []string{
				"See which program has the port, and stop it or forward another port:", command("sudo lsof -nP -i %s:%s", strings.ToUpper(w.Proto), port),
			}, "The forward of %s %s to %s takes no connections: %s.", w.Proto, w.Host, w.Guest, w.Error)
		case err == nil && !known[guest.Addr()]:
			f = v.found(status.ForwardedUnknown, status.Notice, nil, []string{fmt.Sprintf("Start the guest, or keep that address for it: --vmnet-reserve=MAC=%s.", guest.Addr())},
				"The forward of %s %s leads to %s, an address that no guest has now.", w.Proto, w.Host, guest.Addr())
		default:
			continue
		}
		f.of = w.Proto + ":" + w.Host
	}
}

// notKept finds that nothing is kept over a restart.
func notKept(v *view) {
	if v.Daemon.StateFile != "" {
		return
	}
	v.found(status.StateNotKept, status.Notice, nil,
		[]string{"Start the daemon with --state-dir=DIR, a directory that belongs to its user; the log of its start says what was wrong with the usual one."},
		"Nothing is kept over a restart of the daemon: guests may get other addresses then.")
}

// replaced finds that another program is installed than the one that runs.
func replaced(v *view) {
	d := &v.Daemon
	switch gone, since := v.replaced(d.Program); {
	case gone:
		v.found(status.ProgramReplaced, status.Notice, nil, []string{"Install it again."},
			"The program %s is gone; the daemon runs on, and cannot be upgraded or started again.", d.Program)
	case !since.IsZero():
		f := v.found(status.ProgramReplaced, status.Notice, nil, []string{"Have the daemon go on as the new one; no client is disconnected:", command("socket_vmnet2 upgrade %s", v.socket())},
			"The program %s was replaced after this daemon (%s) had started.", d.Program, d.Version)
		f.Since = since.UTC()
	}
}
