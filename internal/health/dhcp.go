// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// commandIndent begins a step that is a command.
const commandIndent = "    "

// command is a step that is typed.
func command(format string, args ...any) string { return commandIndent + fmt.Sprintf(format, args...) }

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
	code, severity string
	text           string   // of the log
	because        string   // the end of the sentence
	fix            []string // a step each
}

// noDHCP finds guests that wait for an address, sorted by the cause.
func noDHCP(v *view) (found []finding) {
	if v.Network.State != status.NetworkRunning {
		return nil
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
		found = append(found, finding{
			Problem: status.Problem{
				Code: why.code, Severity: why.severity, Clients: ids(list), Fix: why.fix,
				Since: v.Now.Add(-seconds(longest)),
				Text: fmt.Sprintf("%s %s for an address and %s had no answer for %s (%d DHCP requests, %d answers so far): %s.",
					names(list), verb(list, "asks", "ask"), verb(list, "has", "have"), span(seconds(longest)), asked, answered, why.because),
			},
			of: why.text, cause: why.text,
		})
	}
	return found
}

// why is the likely cause for which c gets no answer.
func (v *view) why(c *status.Client) cause {
	n := &v.Network
	switch {
	case c.ToNet.Drops[dropSpoofed] > 0:
		return cause{
			code: status.NoDHCPAnswer, severity: status.Error, text: "--anti-spoof drops frames of this client",
			because: fmt.Sprintf("--anti-spoof has dropped %d of its frames, because they do not come from its own address", c.ToNet.Drops[dropSpoofed]),
			fix:     []string{"See the log for what was dropped. A client with several guests behind it needs a daemon without --anti-spoof."},
		}
	case v.recently(c, func(c counters) uint64 { return c.storm }):
		return cause{
			code: status.NoDHCPAnswer, severity: status.Error, text: "the guest's own storm of broadcasts",
			because: "it sends more broadcasts than are passed on, and its requests are among those that are dropped",
			fix:     []string{"Stop what floods the network inside of the guest."},
		}
	case n.Mode == bridged:
		return v.lanSilent()
	case n.DHCP == nil:
		return v.dhcpOff()
	case n.Backend == usernet:
		return v.usernetSilent()
	}
	return v.bootpdSilent()
}

// dhcpOff: the network has no DHCP server.
func (v *view) dhcpOff() cause {
	text, step := "this network has no DHCP server", ""
	if o := v.opts.DHCPOff; o != "" {
		text += ": " + o
		step = "Start the daemon without " + o + ", or"
	}
	return cause{
		code: status.DHCPDisabled, severity: status.Error, text: text, because: text,
		fix: []string{strings.TrimSpace(step + " give the guest a static address" + v.inSubnet() + ".")},
	}
}

// inSubnet tells where guests' addresses are, if that is known.
func (v *view) inSubnet() string {
	n := &v.Network
	switch {
	case n.Subnet.IsValid() && n.Gateway.IsValid():
		return fmt.Sprintf(" in %s, with the gateway %s", n.Subnet, n.Gateway)
	case n.Subnet.IsValid():
		return fmt.Sprintf(" in %s", n.Subnet)
	}
	return ""
}

// lanSilent: whoever serves DHCP on the LAN does not answer.
func (v *view) lanSilent() cause {
	return cause{
		code: status.NoDHCPAnswer, severity: status.Error, text: "the DHCP server of the network behind " + v.Network.Interface + " does not answer",
		because: fmt.Sprintf("the network behind %s has a DHCP server that does not answer, or does not see the requests", v.Network.Interface),
		fix: []string{
			"Use a cable: most Wi-Fi networks take frames only from the addresses that have logged in.",
			"See in the router whether it serves DHCP, has addresses left, and allows unknown devices.",
			"Or use --vmnet-mode=shared.",
		},
	}
}

// usernetSilent: the embedded network's own server does not answer.
func (v *view) usernetSilent() cause {
	d := v.Network.DHCP
	switch {
	case d.Size > 0 && d.Leased >= d.Size:
		return cause{
			code: status.PoolExhausted, severity: status.Error, text: fmt.Sprintf("all %d addresses are leased", d.Size),
			because: fmt.Sprintf("all %d addresses from %s to %s are leased", d.Size, d.Start, d.End), fix: v.moreAddresses(),
		}
	case v.unanswered(portFull) > 0:
		return cause{
			code: status.NoDHCPAnswer, severity: status.Error, text: "one client may have 16 addresses at a time",
			because: fmt.Sprintf("guests behind one client may have 16 addresses at a time, and %d requests were above that", v.unanswered(portFull)),
			fix:     []string{"Give guests clients of their own, or static addresses" + v.inSubnet() + "."},
		}
	}
	return cause{
		code: status.NoDHCPAnswer, severity: status.Error, text: "the embedded network's gateway does not answer",
		because: "the embedded network's gateway does not answer, though it has addresses",
		fix: []string{
			"That should not happen. Look for errors in the log, and see what passes:",
			command("socket_vmnet2 capture -w dhcp.pcapng --socket=%s port 67", shell.Quote(v.Daemon.Socket)),
			"Please report it, with both.",
		},
	}
}

// unanswered is how many requests were not answered for reason since the base, or at all.
func (v *view) unanswered(reason string) uint64 {
	n := v.Network.DHCP.Unanswered[reason]
	if v.base != nil && reason == portFull && n >= v.base.portFull && v.Now.Sub(v.base.at) > recent {
		n -= v.base.portFull
	}
	return n
}

// moreAddresses is how a pool becomes larger.
func (v *view) moreAddresses() []string {
	n := &v.Network
	fix := []string{"Stop guests that are not needed; an address is free again when its guest gives it back, or an hour after its last renewal."}
	if n.DHCP != nil && n.DHCP.End.IsValid() && n.Subnet.IsValid() {
		fix = append(fix, fmt.Sprintf("Or start the daemon with a larger range: a later --vmnet-dhcp-end (now %s), or a shorter --vmnet-mask (now /%d).", n.DHCP.End, n.Subnet.Bits()))
	}
	return fix
}

// bootpdSilent: macOS's DHCP server does not answer.
func (v *view) bootpdSilent() cause {
	if busy := v.busy(); busy != "" {
		return cause{
			code: status.NoDHCPAnswer, severity: status.Error, text: "macOS's sharing service is busy",
			because: "macOS's sharing service is busy, and it is what starts the DHCP server (" + busy + ")", fix: busyFix,
		}
	}
	return cause{
		code: status.NoDHCPAnswer, severity: status.Error, text: "macOS's DHCP server (bootpd) does not answer, most likely because the firewall is in front of it",
		because: "macOS's DHCP server (bootpd) does not answer, most likely because the firewall is in front of it", fix: bootpdFix,
	}
}

// poolFilling finds a pool with hardly an address left. That guests wait for one is noDHCP's.
func poolFilling(v *view) []finding {
	d := v.Network.DHCP
	if d == nil || d.Size <= 0 || d.Leased*10 < d.Size*9 {
		return nil
	}
	for _, c := range v.which(waits) {
		if v.why(c).code == status.PoolExhausted {
			return nil
		}
	}
	p := status.Problem{Code: status.PoolExhausted, Severity: status.Warning, Fix: v.moreAddresses()}
	if d.Leased >= d.Size {
		p.Text = fmt.Sprintf("All %d addresses for guests are leased: the next guest gets none.", d.Size)
	} else {
		p.Text = fmt.Sprintf("%d of %d addresses for guests are leased.", d.Leased, d.Size)
	}
	return []finding{{Problem: p}}
}
