// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

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
		Creator  string `plist:"_creator"`
		Name     string `plist:"name"`
		Address  string `plist:"net_address"`
		Mask     string `plist:"net_mask"`
		Allocate bool   `plist:"allocate"`
	} `plist:"Subnets"`
}

// checkBootpd looks at the DHCP server that serves vmnet's guests.
func checkBootpd(x *exam) {
	var c bootpdConfig
	switch err := x.readPlist(bootpdConf, &c); {
	case absent(err):
		x.ok("%s is not there: vmnet writes it when a network starts", bootpdConf)
	case errors.Is(err, errPermission):
		x.skip(true, "%s cannot be read", bootpdConf)
	case err != nil:
		x.find(status.Error, fmt.Sprintf("%s is not the property list that bootpd wants (%s): it answers nobody", bootpdConf, reason(err)), nil,
			"move it away and start the daemons again: vmnet writes a new one", command("sudo mv "+bootpdConf+" "+bootpdConf+".old"))
	default:
		x.bootpdConfig(c)
	}
	x.bootpdDisabled()
	x.leases()
}

// bootpdConfig compares the configuration with the networks.
func (x *exam) bootpdConfig(c bootpdConfig) {
	foreign := 0
	for _, s := range c.Nets {
		// vmnet's own subnets, and those of Internet Sharing, are by com.apple.NetworkSharing.
		prefix, ok := maskedPrefix(s.Address, s.Mask)
		if !ok || strings.HasPrefix(s.Creator, "com.apple.") {
			continue
		}
		for _, n := range x.nets() {
			if n.prefix.Overlaps(prefix) {
				foreign++
				x.find(status.Warning, fmt.Sprintf("%s has a subnet %q, %s, that was not made by macOS and has the addresses of %s: bootpd may give guests what it says", bootpdConf, s.Name, prefix, n.name),
					map[string]any{"subnet": prefix.String()}, "take it out, if you do not need it:", command("sudo plutil -p "+bootpdConf), command("sudo vi "+bootpdConf))
			}
		}
	}
	if foreign == 0 {
		x.ok("%s has %s, and nothing in it is in the way", bootpdConf, count(len(c.Nets), "subnet"))
	}
}

// maskedPrefix is an address and a mask as bootpd has them.
func maskedPrefix(address, mask string) (netip.Prefix, bool) {
	a, err1 := netip.ParseAddr(address)
	m, err2 := netip.ParseAddr(mask)
	if err1 != nil || err2 != nil || !a.Is4() || !m.Is4() {
		return netip.Prefix{}, false
	}
	bits := 0
	for _, b := range m.As4() {
		for ; b&0x80 != 0; b <<= 1 {
			bits++
		}
	}
	return netip.PrefixFrom(a, bits).Masked(), bits > 0
}

// bootpdDisabled asks launchd. "launchctl print-disabled system" has a line for each job that somebody enabled or disabled:
// "com.apple.bootpd" => disabled, and => true up to macOS 12.
func (x *exam) bootpdDisabled() {
	out, err := x.program("/bin/launchctl", "print-disabled", "system")
	if err != nil {
		x.skip(false, "whether bootpd is disabled: %v", err)
		return
	}
	for line := range strings.Lines(out) {
		job, state, _ := strings.Cut(strings.TrimSpace(line), "=>")
		if state = strings.TrimSpace(state); strings.Contains(job, `"com.apple.bootpd"`) && (state == "disabled" || state == "true") {
			x.find(status.Error, "the job com.apple.bootpd is disabled: guests get no address", nil, "enable it:",
				command("sudo launchctl enable system/com.apple.bootpd"), command("sudo launchctl bootstrap system /System/Library/LaunchDaemons/bootps.plist"))
		}
	}
}

// A leased is a block of /var/db/dhcpd_leases: braces around lines name=, ip_address=, hw_address=TYPE,MAC, identifier= and
// lease=0xSECONDS, when it ends. kubernetes/minikube reads it so (pkg/drivers/common).
type leased struct {
	ip  netip.Addr
	mac string
	end time.Time
}

func parseLeases(text string) (all []leased) {
	var l leased
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		k, v, _ := strings.Cut(line, "=")
		switch {
		case line == "{":
			l = leased{}
		case k == "ip_address":
			l.ip, _ = netip.ParseAddr(v)
		case k == "hw_address":
			_, l.mac, _ = strings.Cut(v, ",")
		case k == "lease":
			if n, err := strconv.ParseInt(strings.TrimPrefix(v, "0x"), 16, 64); err == nil {
				l.end = time.Unix(n, 0)
			}
		case line == "}" && l.ip.IsValid():
			all = append(all, l)
		}
	}
	return all
}

// leases counts them by subnet, and looks for addresses that two guests have.
func (x *exam) leases() {
	b, err := x.readFile(bootpdLease)
	if err != nil {
		if !absent(err) {
			x.skip(errors.Is(err, errPermission), "%s: %s", bootpdLease, reason(err))
		}
		return
	}
	leases, owner := map[netip.Prefix]int{}, map[netip.Addr]string{}
	var twice []string
	for _, l := range parseLeases(string(b)) {
		if !l.end.IsZero() && l.end.Before(time.Now()) {
			continue
		}
		if known, ok := owner[l.ip]; ok {
			if known != l.mac {
				twice = append(twice, l.ip.String())
			}
			continue
		}
		owner[l.ip] = l.mac
		if p, err := l.ip.Prefix(24); err == nil {
			leases[p]++
		}
	}
	forget := []string{
		"have bootpd forget all leases; guests that run keep their address until they ask for it again:",
		command("sudo rm " + bootpdLease), command("sudo /bin/launchctl kickstart -kp system/com.apple.bootpd"),
	}
	full := false
	for _, p := range slices.SortedFunc(maps.Keys(leases), netip.Prefix.Compare) {
		if leases[p] > manyLeases {
			full = true
			x.find(status.Warning, fmt.Sprintf("%d of the 253 addresses of %s are leased by bootpd, each for up to a day: new guests get none when they are used up", leases[p], p),
				map[string]any{"subnet": p.String(), "leases": leases[p]}, forget...)
		}
	}
	if len(twice) > 0 {
		x.find(status.Warning, fmt.Sprintf("bootpd has leased %s to two guests", list(twice[:min(len(twice), 8)])), map[string]any{"addresses": twice}, forget...)
	}
	if !full && len(twice) == 0 {
		x.ok("bootpd has given %s", count(len(owner), "lease"))
	}
}

// checkFirewall asks macOS's Application Firewall. What its program prints, and that built-in software is allowed as a whole
// from macOS 15 on, is as kubernetes/minikube reads it (pkg/minikube/firewall/firewall.go, pull request 20400); the list as
// it is in nix-darwin's issue 1705; what it says on managed Macs is in socket_vmnet's issue 18.
func checkFirewall(x *exam) {
	out, err := x.program(firewall, "--getglobalstate")
	if err != nil {
		x.skip(false, "the firewall's state: %v", err)
		return
	}
	fix := []string{
		"allow bootpd; on a managed Mac that is refused, and up to whoever manages it:",
		command("sudo " + firewall + " --add " + bootpd), command("sudo " + firewall + " --unblockapp " + bootpd),
		command("sudo /bin/launchctl kickstart -kp system/com.apple.bootpd"),
	}
	state := strings.ToLower(out)
	data := map[string]any{"state": firstLine(out)}
	if strings.Contains(state, "disabled") || strings.Contains(state, "state = 0") {
		x.find(OK, "the Application Firewall is off", data)
		return
	}
	if !strings.Contains(state, "enabled") && !strings.Contains(state, "block all") && !strings.Contains(state, "state = ") {
		x.skip(false, "the firewall's state is not understood: %s", firstLine(out))
		return
	}
	all, _ := x.program(firewall, "--getblockall")
	all = strings.ToLower(all)
	if strings.Contains(state, "state = 2") || strings.Contains(state, "block all") || strings.Contains(all, "block all enabled") || strings.Contains(all, "is set to block all") ||
		strings.Contains(all, "set to enabled") {
		x.find(status.Error, "the Application Firewall blocks all incoming connections, so also what guests ask bootpd for: they get no address", data,
			"turn that off:", command("sudo "+firewall+" --setblockall off"))
		return
	}
	x.firewallApps(data, fix)
}

// firewallApps looks whether bootpd is allowed, with the firewall on.
func (x *exam) firewallApps(data map[string]any, fix []string) {
	apps, err := x.program(firewall, "--listapps")
	if err != nil {
		x.skip(false, "the firewall's list: %v", err)
		return
	}
	listed := ""
	lines := strings.Split(apps, "\n")
	for i, line := range lines {
		if strings.Contains(line, bootpd) && i+1 < len(lines) {
			listed = strings.ToLower(line + lines[i+1])
		}
	}
	signed, _ := x.program(firewall, "--getallowsigned") // macOS 15 and later
	builtIn := strings.Contains(strings.ToLower(signed), "built-in signed software enabled")
	switch {
	case strings.Contains(listed, "block"):
		x.find(status.Error, "the Application Firewall is on and blocks bootpd: guests get no address", data, fix...)
	case strings.Contains(listed, "allow"):
		x.find(OK, "the Application Firewall is on and lets bootpd answer", data)
	case builtIn:
		x.find(OK, "the Application Firewall is on and lets macOS's own programs answer, so bootpd", data)
	default:
		x.find(status.Warning, "the Application Firewall is on, and bootpd is not among the programs that it lets answer: guests may get no address", data, fix...)
	}
}
