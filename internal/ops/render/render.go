// SPDX-License-Identifier: Apache-2.0

// Package render makes text for people of a daemon's description: on a terminal as wide as that is, and in a pipe with all
// columns, one word in each cell. It does nothing but make text, and no name that a guest has chosen leaves its cell.
package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// Options say for whom.
type Options struct {
	Piped bool // no terminal: neither colours nor a width
	Width int  // of the terminal in cells; 0: not known
	Wide  bool // all columns, whatever the width
	Color bool

	Before *status.Status // an earlier look at the same daemon, for rates
}

// Status tells all: the daemon, its clients and its problems.
func Status(s *status.Status, o Options) string {
	p := &page{Options: o}
	p.head(s)
	p.whole("")
	p.clients(s)
	p.whole("")
	p.health(s)
	return p.text.String()
}

// Clients is the table of clients alone.
func Clients(s *status.Status, o Options) string {
	p := &page{Options: o}
	p.clients(s)
	return p.text.String()
}

// labelWidth is the column at which the text of the head's lines begins.
const labelWidth = 10

// field writes a line of the head, if there is anything to tell.
func (p *page) field(label, text string) {
	if text != "" {
		p.line("", pad(label, labelWidth, false), text, labelWidth)
	}
}

// head tells of the daemon and its network.
func (p *page) head(s *status.Status) {
	d, n := s.Daemon, s.Network
	p.line(bold, "socket_vmnet2 "+d.Version, " at "+d.Socket, 2)
	p.field("network", network(n))
	p.field("", printable.Behind("failed: ", n.Error))
	p.field("subnet", subnet(n))
	p.field("dhcp", dhcp(n.DHCP))
	p.field("vmnet", vmnet(n.Vmnet))
	if u := n.Usernet; u != nil {
		p.field("flows", fmt.Sprintf("%d TCP, %d UDP", u.TCPFlows, u.UDPFlows))
		p.field("gateway", gateway(u.Gateway))
		for _, f := range u.Forwards {
			p.field("forward", forward(f))
		}
	}
	p.field("options", fmt.Sprintf("offload %s, isolation %s, anti-spoof %s",
		onOff(n.Offload), onOff(n.Isolated), onOff(n.AntiSpoof)))
	p.field("process", process(d))
	p.field("uptime", uptime(d))
	p.field("clients", fmt.Sprintf("%d of %d, %s since the start, %s refused", len(s.Clients), d.MaxClients,
		humanCount(s.Totals.Connects), humanCount(s.Totals.Refused)))
}

// gateway tells of the process that has DHCP, DNS and NAT.
func gateway(g status.Gateway) string {
	text := g.State
	if g.PID != 0 {
		text += fmt.Sprintf(", process %d of %s", g.PID, cmp.Or(g.User, fmt.Sprintf("user %d", g.UID)))
	}
	if g.Rights != "" {
		text += " (" + g.Rights + ")"
	}
	if g.Restarts > 0 {
		text += fmt.Sprintf(", started again %s times", humanCount(g.Restarts))
	}
	if g.Error != "" {
		text += ": " + g.Error
	}
	return text
}

func network(n status.Network) string {
	return list(n.Backend, n.Mode+printable.Behind(" on ", n.Interface), n.State)
}

func subnet(n status.Network) string {
	if !n.Subnet.IsValid() && !n.Gateway.IsValid() {
		return ""
	}
	mtu := ""
	if n.MTU > 0 {
		mtu = fmt.Sprintf("MTU %d", n.MTU)
	}
	return list(valid(n.Subnet), printable.Behind("gateway ", valid(n.Gateway)), mtu)
}

func dhcp(d *status.DHCP) string {
	if d == nil {
		return "none"
	}
	leased := ""
	if d.Size > 0 {
		leased = fmt.Sprintf("%d of %d leased", d.Leased, d.Size)
	}
	return list(d.Start.String()+" to "+d.End.String(), leased)
}

func vmnet(v *status.Vmnet) string {
	if v == nil {
		return ""
	}
	api, failed := v.API+" API", ""
	if v.Why != "" {
		api += " (" + v.Why + ")"
	}
	if v.StartFailures > 0 {
		failed = fmt.Sprintf("%d starts failed", v.StartFailures)
	}
	return list(api, fmt.Sprintf("%d own interfaces", v.Own), fmt.Sprintf("%d clients share one", v.Shared), failed, printable.Behind("the last one: ", v.LastFailure))
}

func forward(f status.Forward) string {
	return list(fmt.Sprintf("%s %s to %s", f.Proto, f.Host, f.Guest), printable.Behind("failed: ", f.Error))
}

func process(d status.Daemon) string {
	return list(fmt.Sprintf("%d of user %d", d.PID, d.UID), d.Program, printable.Behind("log level ", d.LogLevel))
}

func uptime(d status.Daemon) string {
	upgraded := ""
	switch {
	case d.Upgrades == 1:
		upgraded = "upgraded in place once"
	case d.Upgrades > 1:
		upgraded = fmt.Sprintf("upgraded in place %d times", d.Upgrades)
	}
	return list(seconds(d.Uptime), upgraded)
}

// list puts commas between the texts that are not empty.
func list(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), ", ")
}

// valid is an address or a prefix, or nothing if there is none.
func valid(a fmt.Stringer) string {
	if text := a.String(); !strings.HasPrefix(text, "invalid ") { // as netip says of none
		return text
	}
	return ""
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
