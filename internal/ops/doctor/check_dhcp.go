// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// Files and programs of macOS.
const (
	bootpd      = "/usr/libexec/bootpd"
	bootpdConf  = "/etc/bootpd.plist"
	bootpdLease = "/var/db/dhcpd_leases"
	firewall    = "/usr/libexec/ApplicationFirewall/socketfilterfw"
)

// manyLeases is when a subnet of 253 addresses is nearly full, since a lease of bootpd lasts a day.
const manyLeases = 200

// bootpdConfig is what matters here of /etc/bootpd.plist, as bootpd(8) has it. Which interfaces it serves is not looked at:
// vmnet changes that as its networks come and go.
type bootpdConfig struct {
	Nets []struct {
		Creator string `plist:"_creator"`
		Name    string `plist:"name"`
		Address string `plist:"net_address"`
		Mask    string `plist:"net_mask"`
	} `plist:"Subnets"`
}

// checkBootpd looks at the DHCP server that serves vmnet's guests.
func checkBootpd(x *exam) {
	var c bootpdConfig
	switch err := x.readPlist(bootpdConf, &c); {
	case err == nil:
		x.bootpdConfig(c)
	case find.Absent(err):
		x.ok("%s is not there: vmnet writes it when a network starts", bootpdConf)
	case errors.Is(err, fs.ErrPermission):
		x.skip(true, "%s cannot be read", bootpdConf)
	default:
		x.report(status.Error, []string{"move it away and start the daemons again: vmnet writes a new one", "    sudo mv " + bootpdConf + " " + bootpdConf + ".old"},
			"%s is not the property list that bootpd wants (%s): it answers no guest", bootpdConf, hostfs.Reason(err))
	}
	x.bootpdDisabled()
	x.leases()
}

// bootpdConfig compares the configuration with the networks.
func (x *exam) bootpdConfig(c bootpdConfig) {
	foreign := false
	for _, s := range c.Nets {
		// vmnet's own subnets, and those of Internet Sharing, are by com.apple.NetworkSharing.
		prefix, ok := maskedPrefix(s.Address, s.Mask)
		if !ok || strings.HasPrefix(s.Creator, "com.apple.") {
			continue
		}
		for _, n := range x.subnets {
			if n.prefix.Overlaps(prefix) {
				foreign = true
				x.report(status.Warning, []string{"take it out, if you do not need it:", "    sudo plutil -p " + bootpdConf, "    sudo vi " + bootpdConf},
					"%s has a subnet %q, %s, that was not made by macOS and has the addresses of %s: bootpd may give guests what it says", bootpdConf, s.Name, prefix, n.name)
			}
		}
	}
	if !foreign {
		x.ok("%s has %s, and nothing in it is in the way", bootpdConf, printable.Count(len(c.Nets), "subnet"))
	}
}

// maskedPrefix is an address and a mask as bootpd has them.
func maskedPrefix(address, mask string) (netip.Prefix, bool) {
	a, err1 := netip.ParseAddr(address)
	m, err2 := netip.ParseAddr(mask)
	if err1 != nil || err2 != nil || !a.Is4() || !m.Is4() {
		return netip.Prefix{}, false
	}
	bits, _ := net.IPMask(m.AsSlice()).Size()
	return netip.PrefixFrom(a, bits).Masked(), bits > 0
}

// bootpdDisabled asks launchd. "launchctl print-disabled system" has a line for each job that was enabled or disabled by hand:
// "com.apple.bootpd" => disabled, and => true up to macOS 12.
func (x *exam) bootpdDisabled() {
	out, err := x.Output(x.ctx, "/bin/launchctl", "print-disabled", "system")
	if err != nil {
		x.skip(false, "whether bootpd is disabled: %v", err)
	}
	for line := range strings.Lines(out) {
		job, state, _ := strings.Cut(strings.TrimSpace(line), "=>")
		if state = strings.TrimSpace(state); strings.Contains(job, `"com.apple.bootpd"`) && (state == "disabled" || state == "true") {
			x.report(status.Error, []string{
				"enable it:", "    sudo launchctl enable system/com.apple.bootpd", "    sudo launchctl bootstrap system /System/Library/LaunchDaemons/bootps.plist",
			}, "the job com.apple.bootpd is disabled: guests get no address")
		}
	}
}

// leases counts them by subnet, and looks for addresses that two guests have.
//
// A block of /var/db/dhcpd_leases has lines name=, ip_address=, hw_address=TYPE,MAC, identifier= and lease=0xSECONDS, when it ends, in
// braces. kubernetes/minikube reads it so (pkg/drivers/common).
func (x *exam) leases() {
	b, err := x.readFile(bootpdLease)
	if err != nil {
		x.unreadable(bootpdLease, err)
		return
	}
	leases, owner := map[netip.Prefix]int{}, map[netip.Addr]string{}
	var twice, unnamed []string
	for block := range strings.SplitSeq(string(b), "}") {
		l := find.Properties(block)
		ip, err := netip.ParseAddr(l["ip_address"])
		end, eerr := strconv.ParseInt(strings.TrimPrefix(l["lease"], "0x"), 16, 64)
		known, ok := owner[ip]
		switch {
		case err != nil, eerr == nil && time.Unix(end, 0).Before(time.Now()):
		case ok && known != l["hw_address"]:
			twice = append(twice, ip.String())
		case !ok:
			owner[ip] = l["hw_address"]
			if strings.HasPrefix(l["hw_address"], "ff,") && slices.ContainsFunc(x.subnets, func(n *subnet) bool { return n.prefix.Contains(ip) }) {
				unnamed = append(unnamed, ip.String()+printable.Behind(" to ", l["name"]))
			}
			p, _ := ip.Prefix(24)
			leases[p]++
		}
	}
	forget := []string{
		"have bootpd forget all leases; guests that run keep their address until they ask for it again:",
		"    sudo rm " + bootpdLease, "    sudo /bin/launchctl kickstart -kp system/com.apple.bootpd",
	}
	full := false
	for _, p := range slices.SortedFunc(maps.Keys(leases), netip.Prefix.Compare) {
		if leases[p] > manyLeases {
			full = true
			x.report(status.Warning, forget, "%d of the 253 addresses of %s are leased by bootpd, each for up to a day: new guests get none when they are used up", leases[p], p)
		}
	}
	if len(unnamed) > 0 {
		x.report(status.Notice, []string{
			"see each guest's address beside its MAC address:", "    socket_vmnet2 status",
			"or have the guests ask by their MAC addresses: \"dhcp-identifier: mac\" in netplan, ClientIdentifier=mac in a .network file of systemd-networkd",
		}, "bootpd has leased %s by a DUID: %s has no MAC address for that, so tools that look for one there find no address", printable.List(unnamed[:min(len(unnamed), 8)]), bootpdLease)
	}
	if len(twice) > 0 {
		x.report(status.Warning, forget, "bootpd has leased %s to two guests", printable.List(twice[:min(len(twice), 8)]))
	} else if !full {
		x.ok("bootpd has given %s", printable.Count(len(owner), "lease"))
	}
}

// checkFirewall asks macOS's Application Firewall. What its program prints, and that built-in software is allowed as a whole
// from macOS 15 on, is as kubernetes/minikube reads it (pkg/minikube/firewall/firewall.go, pull request 20400); the list as
// it is in nix-darwin's issue 1705; what it says on managed Macs is in socket_vmnet's issue 18.
func checkFirewall(x *exam) {
	out, err := x.Output(x.ctx, firewall, "--getglobalstate")
	if err != nil {
		x.skip(false, "the firewall's state: %v", err)
		return
	}
	all, _ := x.Output(x.ctx, firewall, "--getblockall")
	state, all := strings.ToLower(out), strings.ToLower(all)
	has := func(text string, any ...string) bool {
		return slices.ContainsFunc(any, func(s string) bool { return strings.Contains(text, s) })
	}
	switch {
	case has(state, "disabled", "state = 0"):
		x.ok("the Application Firewall is off")
	case !has(state, "enabled", "block all", "state = "):
		x.skip(false, "the firewall's state is not understood: %s", find.FirstLine(out))
	case has(state, "state = 2", "block all"), has(all, "block all enabled", "is set to block all", "set to enabled"):
		x.report(status.Error, []string{"turn that off:", "    sudo " + firewall + " --setblockall off"},
			"the Application Firewall blocks all incoming connections, so also what guests ask bootpd for: they get no address")
	default:
		x.firewallApps()
	}
}

// firewallApps looks whether bootpd is allowed, with the firewall on.
func (x *exam) firewallApps() {
	apps, err := x.Output(x.ctx, firewall, "--listapps")
	if err != nil {
		x.skip(false, "the firewall's list: %v", err)
		return
	}
	listed := ""
	lines := strings.Split(apps, "\n")
	for i, line := range lines[:len(lines)-1] {
		if strings.Contains(line, bootpd) {
			listed = strings.ToLower(line + lines[i+1])
		}
	}
	fix := []string{
		"allow bootpd; on a managed Mac that is refused, and up to its administrator:",
		"    sudo " + firewall + " --add " + bootpd, "    sudo " + firewall + " --unblockapp " + bootpd,
		"    sudo /bin/launchctl kickstart -kp system/com.apple.bootpd",
	}
	signed, _ := x.Output(x.ctx, firewall, "--getallowsigned") // macOS 15 and later
	switch {
	case strings.Contains(listed, "block"):
		x.report(status.Error, fix, "the Application Firewall is on and blocks bootpd: guests get no address")
	case strings.Contains(listed, "allow"):
		x.ok("the Application Firewall is on and lets bootpd answer")
	case strings.Contains(strings.ToLower(signed), "built-in signed software enabled"):
		x.ok("the Application Firewall is on and lets macOS's own programs answer, so bootpd")
	default:
		x.report(status.Warning, fix, "the Application Firewall is on, and bootpd is not among the programs that it lets answer: guests may get no address")
	}
}
