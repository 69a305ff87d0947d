// SPDX-License-Identifier: Apache-2.0

// Package render makes text for people of a daemon's description: on a terminal as wide as that is, and in a pipe with all
// columns, one word in each cell. It does nothing but make text, and no name that a guest has chosen leaves its cell.
package render

import (
	"cmp"
	"fmt"
	"strings"

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

// field writes a line of the head.
func (p *page) field(label, text string) {
	p.line("", pad(label, labelWidth, false), text, labelWidth)
}

// head tells of the daemon and its network.
func (p *page) head(s *status.Status) {
	d, n := s.Daemon, s.Network
	p.line(bold, "socket_vmnet2 "+d.Version, " at "+d.Socket, 2)
	p.field("network", network(n))
	if n.Error != "" {
		p.field("", "failed: "+n.Error)
	}
	if n.Subnet.IsValid() || n.Gateway.IsValid() {
		p.field("subnet", subnet(n))
	}
	p.field("dhcp", dhcp(n.DHCP))
	if n.Vmnet != nil {
		p.field("vmnet", vmnet(*n.Vmnet))
	}
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
		Count(s.Totals.Connects), Count(s.Totals.Refused)))
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
		text += fmt.Sprintf(", started again %s times", Count(g.Restarts))
	}
	if g.Error != "" {
		text += ": " + g.Error
	}
	return text
}

func network(n status.Network) string {
	text := n.Backend + ", " + n.Mode
	if n.Interface != "" {
		text += " on " + n.Interface
	}
	return text + ", " + n.State
}

func subnet(n status.Network) string {
	var words []string
	if n.Subnet.IsValid() {
		words = append(words, n.Subnet.String())
	}
	if n.Gateway.IsValid() {
		words = append(words, "gateway "+n.Gateway.String())
	}
	if n.MTU > 0 {
		words = append(words, fmt.Sprintf("MTU %d", n.MTU))
	}
	return strings.Join(words, ", ")
}

func dhcp(d *status.DHCP) string {
	if d == nil {
		return "none"
	}
	text := d.Start.String() + " to " + d.End.String()
	if d.Size > 0 {
		text += fmt.Sprintf(", %d of %d leased", d.Leased, d.Size)
	}
	return text
}

func vmnet(v status.Vmnet) string {
	text := v.API + " API"
	if v.Why != "" {
		text += " (" + v.Why + ")"
	}
	text += fmt.Sprintf(", %d own interfaces, %d clients share one", v.Own, v.Shared)
	if v.StartFailures > 0 {
		text += fmt.Sprintf(", %d starts failed", v.StartFailures)
	}
	if v.LastFailure != "" {
		text += ", the last one: " + v.LastFailure
	}
	return text
}

func forward(f status.Forward) string {
	text := fmt.Sprintf("%s %s to %s", f.Proto, f.Host, f.Guest)
	if f.Error != "" {
		text += ", failed: " + f.Error
	}
	return text
}

func process(d status.Daemon) string {
	text := fmt.Sprintf("%d of user %d", d.PID, d.UID)
	if d.Program != "" {
		text += ", " + d.Program
	}
	if d.LogLevel != "" {
		text += ", log level " + d.LogLevel
	}
	return text
}

func uptime(d status.Daemon) string {
	text := seconds(d.Uptime)
	switch d.Upgrades {
	case 0:
		return text
	case 1:
		return text + ", upgraded in place once"
	}
	return fmt.Sprintf("%s, upgraded in place %d times", text, d.Upgrades)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
