// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// natPrefs is where Internet Sharing keeps whether it is on.
const natPrefs = "/Library/Preferences/SystemConfiguration/com.apple.nat.plist"

// vmnetUsers are programs that use vmnet, by the name of a process, or by a part of its command line, which has a slash or a blank.
var vmnetUsers = [][2]string{
	{"/com.canonical.multipass/", "Multipass"},
	{"container-network-vmnet", "apple/container"},
	{"/UTM.app/", "UTM"},
	{"vmnet-helper", "vmnet-helper"},
	{"vmnet-broker", "vmnet-broker"},
	{"softnet", "softnet"},
	{"tart", "tart"},
	{"lume", "lume"},
	{"/VMware Fusion.app/", "VMware Fusion"},
	{"/OrbStack.app/", "OrbStack"},
	{" vmnet-shared", "QEMU"},
	{" vmnet-host", "QEMU"},
	{" vmnet-bridged", "QEMU"},
}

// checkOthers names what else uses vmnet: all share its interfaces, and none may have the subnet of another.
func checkOthers(x *exam) {
	var others []string
	var c struct{ NAT struct{ Enabled any } }
	if err := x.readPlist(natPrefs, &c); err != nil {
		x.unreadable(natPrefs, err)
	} else if on := fmt.Sprint(c.NAT.Enabled); on == "1" || on == "true" {
		others = append(others, "Internet Sharing")
	}
	seen := map[string]bool{}
	for _, pid := range slices.Sorted(maps.Keys(x.Processes)) {
		args := x.Processes[pid].Args
		line := strings.Join(args, " ")
		for _, u := range vmnetUsers {
			if !seen[u[1]] && (u[0] == filepath.Base(args[0]) || strings.ContainsAny(u[0], "/ ") && strings.Contains(line, u[0])) {
				seen[u[1]] = true
				others = append(others, fmt.Sprintf("%s (process %d)", u[1], pid))
			}
		}
	}
	if len(others) == 0 {
		return
	}
	severity, fix := status.Notice, []string{
		"if a daemon does not start because vmnet is busy ([1009] VMNET_SHARING_SERVICE_BUSY), end them, or give it a subnet of its own by --vmnet-gateway",
		"Internet Sharing: System Settings, General, Sharing",
	}
	if slices.ContainsFunc(x.telling(), func(k *socket) bool {
		return k.Status.Network.Backend == backendVmnet && k.Status.Network.State == status.NetworkRunning
	}) {
		severity, fix = severityOK, nil
	}
	x.report(severity, fix, "vmnet is used by others too: %s; each network needs a subnet of its own, and macOS has 32 interfaces for all", printable.List(others))
}

// backendVmnet is vmnet's name in a status.
const backendVmnet = "vmnet"

// checkForwarding looks whether macOS forwards, which opens networks in host mode: apple/container's issue 2062 and pull request 2072.
func checkForwarding(x *exam) {
	var hosts []string
	for _, k := range x.serving() {
		host := k.Status != nil && k.Status.Network.Backend == backendVmnet && k.Status.Network.Mode == "host"
		for _, d := range x.Servers {
			host = host || k.Status == nil && d.PID == k.PID && d.Mode == "host"
		}
		if host {
			hosts = append(hosts, k.Socket)
		}
	}
	if len(hosts) == 0 {
		return
	}
	switch out, err := x.Output(x.ctx, "/usr/sbin/sysctl", "-n", "net.inet.ip.forwarding"); {
	case err != nil:
		x.skip(false, "net.inet.ip.forwarding: %v", err)
	case strings.TrimSpace(out) == "0":
		x.ok("macOS forwards nothing (net.inet.ip.forwarding is 0), so the network in host mode at %s has no way out", printable.List(hosts))
	default:
		x.report(status.Warning, []string{
			"if nothing else needs it, as Internet Sharing, networks in shared mode and Multipass do, switch it off:", "    sudo sysctl -w net.inet.ip.forwarding=0",
			"else take the default route out of the guests, and try from one whether it reaches an address outside",
		}, "macOS forwards (net.inet.ip.forwarding is 1): guests of the network in host mode at %s may reach what is outside, by address", printable.List(hosts))
	}
}

// What keeps networks of vmnet apart, as public scripts read it that work around it (pf.conf(5), pfctl(8)): what is in the table is
// dropped but for what "pass quick on BRIDGE inet from SUBNET to SUBNET" lets through.
const (
	pfctl          = "/sbin/pfctl"
	isolation      = "com.apple.internet-sharing/network_isolation"
	isolationTable = "network_isolation_table_v4"
)

// checkPF looks at macOS's packet filter.
func checkPF(x *exam) {
	anchors, err := x.Output(x.ctx, pfctl, "-s", "Anchors")
	if err != nil {
		x.skip(!x.User.Behind, "pf's rules, which only root may read: %v", err)
		return
	}
	rules, _ := x.Output(x.ctx, pfctl, "-a", isolation, "-s", "rules") // fails where there is no such anchor
	table, _ := x.Output(x.ctx, pfctl, "-a", isolation, "-t", isolationTable, "-T", "show")
	for _, n := range x.subnets {
		own := "from " + n.prefix.String() + " to " + n.prefix.String()
		switch held := slices.ContainsFunc(prefixes(strings.Fields(table)), n.prefix.Overlaps); {
		case !n.runs || !n.vmnet || !held:
		case slices.ContainsFunc(strings.Split(rules, "\n"), func(l string) bool { return strings.HasPrefix(l, "pass quick on ") && strings.Contains(l, own) }):
			x.ok("pf keeps %s apart from other networks of vmnet, as macOS has it: guests of one do not reach those of another", n.prefix)
		default:
			x.report(status.Warning, []string{
				"start the daemon again, so that macOS writes the rules again; what they are now:",
				"    sudo pfctl -a " + isolation + " -s rules", "    sudo pfctl -a " + isolation + " -t " + isolationTable + " -T show",
			}, "pf's anchor %s drops what is from and for %s, and has no rule that lets it through: the host and guests may not reach each other", isolation, n.prefix)
		}
	}
	others := slices.DeleteFunc(strings.Fields(anchors), func(a string) bool { return strings.HasPrefix(a, "com.apple") })
	if len(others) > 0 {
		x.report(status.Notice, []string{"if guests have no way out, look at what they block:", "    sudo pfctl -a " + printable.Quote(others[0]) + " -s rules"},
			"pf has rules of other programs, %s: a VPN or a firewall can keep guests from the way out", printable.List(others[:min(len(others), 8)]))
	}
}

// prefixes are those of words that are prefixes, or addresses.
func prefixes(words []string) (all []netip.Prefix) {
	for _, w := range words {
		if !strings.Contains(w, "/") {
			w += "/32"
		}
		if p, err := netip.ParsePrefix(w); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// localNetwork is the domain of what is exempt from Local Network privacy (Apple's TN3179, macOS 15.5); it counts after a restart.
const localNetwork = "com.apple.network.local-network"

// exemptPlists are where it is: "sudo defaults write" of the domain alone puts it among root's.
var exemptPlists = []string{"/var/root/Library/Preferences/" + localNetwork + ".plist", "/Library/Preferences/" + localNetwork + ".plist"}

// checkLocalNetwork tells of the permission without which programs of this host do not reach guests. Who has it cannot be read; whether
// this program has it, --reach finds out.
func checkLocalNetwork(x *exam) {
	switch major := x.macMajor(); {
	case major == 0:
		x.skip(false, "the version of macOS is not known")
		return
	case major < 15:
		x.ok("macOS %s lets every program reach guests", x.macOS)
		return
	}
	var exempt []netip.Prefix
	for _, path := range exemptPlists {
		var c struct{ AllowedEthernetLocalNetworkAddresses, AllowedWiFiLocalNetworkAddresses []string }
		if err := x.readPlist(path, &c); err != nil {
			x.unreadable(path, err)
		}
		exempt = append(exempt, prefixes(append(c.AllowedEthernetLocalNetworkAddresses, c.AllowedWiFiLocalNetworkAddresses...))...)
	}
	for _, n := range x.subnets {
		if n.vmnet && slices.ContainsFunc(exempt, func(p netip.Prefix) bool { return p.Bits() <= n.prefix.Bits() && p.Contains(n.prefix.Addr()) }) {
			x.ok("every program may reach %s: it is exempt from Local Network privacy (%s)", n.prefix, localNetwork)
		}
	}
	x.ok("macOS %s asks of each app whether it may reach guests (Local Network); root, ssh and Terminal may. Whether this program may: --reach=IP", x.macOS)
}
