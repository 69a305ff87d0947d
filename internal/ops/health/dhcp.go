// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// portFull is why a DHCP request had no answer, as the status names it.
const portFull = "port_full"

// bootpdFix lets macOS's DHCP server through. The commands are those of socket_vmnet's README, "IP address is not assigned" (its pull
// requests 33 and 51: without sudo the first one only seems to succeed), the second with the name that the tool's own help has;
// kickstart is the README's for /etc/bootptab. bootpd is started with the first request, and newer macOS may not let it be restarted:
// then only the machine can be.
var bootpdFix = []string{
	"Let macOS's firewall pass bootpd, and start bootpd again:",
	command("sudo /usr/libexec/ApplicationFirewall/socketfilterfw --add /usr/libexec/bootpd"),
	command("sudo /usr/libexec/ApplicationFirewall/socketfilterfw --unblockapp /usr/libexec/bootpd"),
	command("sudo /bin/launchctl kickstart -kp system/com.apple.bootpd"),
	"If that does not help, another firewall or a security product filters DHCP (UDP port 67), or bootpd hangs until the Mac is restarted.",
}

// waits reports whether c has asked for an address for too long. One without a port has no network at all, which is another problem.
func waits(c *status.Client) bool {
	return seconds(c.DHCP.Waiting) >= answerTime && c.Error == "" && c.State != status.StateStarting
}

// A cause is why guests get no answer.
type cause struct {
	code string
	text string   // the end of the sentence
	fix  []string // a step each
}

// noDHCP finds guests that wait for an address, sorted by the cause.
func noDHCP(v *view) {
	if v.Network.State != status.NetworkRunning {
		return
	}
	var causes []cause
	clients := map[string][]*status.Client{}
	for _, c := range v.which(waits) {
		why := v.why(c)
		if clients[why.text] == nil {
			causes = append(causes, why)
		}
		clients[why.text] = append(clients[why.text], c)
	}
	for _, why := range causes {
		list := clients[why.text]
		longest, asked, answered := 0.0, uint64(0), uint64(0)
		for _, c := range list {
			longest = max(longest, c.DHCP.Waiting)
			asked += c.DHCP.Discovers + c.DHCP.Requests
			answered += c.DHCP.Offers + c.DHCP.Acks + c.DHCP.Naks
		}
		f := v.found(why.code, status.Error, list, why.fix, "%s %s for an address and %s had no answer for %s (%d DHCP requests, %d answers so far): %s.",
			names(list), verb(list, "asks", "ask"), verb(list, "has", "have"), span(seconds(longest)), asked, answered, why.text)
		f.Since, f.waits = v.Now.Add(-seconds(longest)), true
	}
}

// why is the likely cause for which c gets no answer.
func (v *view) why(c *status.Client) cause {
	n, busy := &v.Network, v.busy()
	switch storm := v.grew(c, broadcasts); {
	case c.ToNet.Drops["drop_spoofed"] > 0:
		return cause{
			status.NoDHCPAnswer, fmt.Sprintf("--anti-spoof has dropped %d of its frames, because they do not come from its own address", c.ToNet.Drops["drop_spoofed"]),
			[]string{"See the log for what was dropped. A client with several guests behind it needs a daemon without --anti-spoof."},
		}
	case storm.news && storm.n > 0:
		return cause{
			status.NoDHCPAnswer, "it sends more broadcasts than are passed on, and its requests are among those that are dropped",
			[]string{"Stop what floods the network inside of the guest."},
		}
	case n.Mode == bridged:
		return cause{
			status.NoDHCPAnswer, fmt.Sprintf("the network behind %s has a DHCP server that does not answer, or does not see the requests", n.Interface),
			[]string{
				"Use a cable: most Wi-Fi networks take frames only from the addresses that have logged in.",
				"See in the router whether it serves DHCP, has addresses left, and allows unknown devices.",
				"Or use --vmnet-mode=shared.",
			},
		}
	case n.DHCP == nil:
		return v.dhcpOff()
	case n.Backend == usernet:
		return v.usernetSilent()
	case busy != "":
		return cause{status.NoDHCPAnswer, "macOS's sharing service is busy, and it is what starts the DHCP server (" + busy + ")", busyFix}
	}
	return cause{status.NoDHCPAnswer, "macOS's DHCP server (bootpd) does not answer, most likely because the firewall is in front of it", bootpdFix}
}

// dhcpOff: the network has no DHCP server.
func (v *view) dhcpOff() cause {
	text, step := "this network has no DHCP server", ""
	if o := v.opts.DHCPOff; o != "" {
		text += ": " + o
		step = "Start the daemon without " + o + ", or "
	}
	return cause{status.DHCPDisabled, text, []string{step + "give the guest a static address" + v.inSubnet() + "."}}
}

// inSubnet tells where guests' addresses are, if that is known.
func (v *view) inSubnet() string {
	n := &v.Network
	if !n.Subnet.IsValid() {
		return ""
	}
	return " in " + n.Subnet.String() + printable.Behind(", with the gateway ", printable.Valid(n.Gateway))
}

// usernetSilent: the embedded network's own server does not answer.
func (v *view) usernetSilent() cause {
	d := v.Network.DHCP
	above := d.Unanswered[portFull]
	if v.base != nil && above >= v.base.portFull && v.Now.Sub(v.base.at) > recent {
		above -= v.base.portFull
	}
	switch {
	case d.Size > 0 && d.Leased >= d.Size:
		return cause{status.PoolExhausted, fmt.Sprintf("all %d addresses from %s to %s are leased", d.Size, d.Start, d.End), v.moreAddresses()}
	case above > 0:
		return cause{
			status.NoDHCPAnswer, fmt.Sprintf("guests behind one client may have 16 addresses at a time, and %d requests were above that", above),
			[]string{"Give guests clients of their own, or static addresses" + v.inSubnet() + "."},
		}
	}
	return cause{
		status.NoDHCPAnswer, "the embedded network's gateway does not answer, though it has addresses",
		[]string{
			"That should not happen. Look for errors in the log, and see what passes:",
			command("socket_vmnet2 capture -w dhcp.pcapng port 67 %s", v.socket()),
			"Please report it, with both.",
		},
	}
}

// moreAddresses is how a pool becomes larger.
func (v *view) moreAddresses() []string {
	n := &v.Network
	fix := []string{"Stop guests that are not needed; an address is free again when its guest gives it back, or an hour after its last renewal."}
	if n.DHCP.End.IsValid() && n.Subnet.IsValid() {
		fix = append(fix, fmt.Sprintf("Or start the daemon with a larger range: a later --vmnet-dhcp-end (now %s), or a shorter --vmnet-mask (now /%d).", n.DHCP.End, n.Subnet.Bits()))
	}
	return fix
}

// poolFilling finds a pool with hardly an address left. That guests wait for one is noDHCP's.
func poolFilling(v *view) {
	d := v.Network.DHCP
	if d == nil || d.Size <= 0 || d.Leased*10 < d.Size*9 ||
		slices.ContainsFunc(v.which(waits), func(c *status.Client) bool { return v.why(c).code == status.PoolExhausted }) {
		return
	}
	text := fmt.Sprintf("%d of %d addresses for guests are leased.", d.Leased, d.Size)
	if d.Leased >= d.Size {
		text = fmt.Sprintf("All %d addresses for guests are leased: the next guest gets none.", d.Size)
	}
	v.found(status.PoolExhausted, status.Warning, nil, v.moreAddresses(), "%s", text)
}

// busyFix is for VMNET_SHARING_SERVICE_BUSY.
var busyFix = []string{
	"Another program with virtual machines, or Internet Sharing, has this subnet. See what holds a bridge:",
	command("ifconfig | grep -A6 '^bridge'"),
	"Stop that program, switch Internet Sharing off (System Settings, General, Sharing), or start the daemon with another --vmnet-gateway.",
	"After a daemon was killed macOS may hold its subnet for some time; --vmnet-api=interface is affected less.",
}

// isBusy tells whether an error is that macOS's sharing service refuses to start interfaces.
func isBusy(err string) bool { return strings.Contains(err, "VMNET_SHARING_SERVICE_BUSY") }

// busy is what tells that it refuses that now; empty: nothing does.
func (v *view) busy() string {
	errs := []string{v.Network.Error}
	for i := range v.Clients {
		errs = append(errs, v.Clients[i].Error)
	}
	if m := v.Network.Vmnet; m != nil && m.Shared > 0 {
		errs = append(errs, m.LastFailure)
	}
	if i := slices.IndexFunc(errs, isBusy); i >= 0 {
		return errs[i]
	}
	return ""
}

// sharingBusy finds VMNET_SHARING_SERVICE_BUSY.
func sharingBusy(v *view) {
	text := v.busy()
	if text == "" {
		return
	}
	list := v.which(func(c *status.Client) bool { return isBusy(c.Error) })
	v.found(status.SharingBusy, status.Error, list, busyFix, "macOS's sharing service refuses to start interfaces: %s.", text)
}
