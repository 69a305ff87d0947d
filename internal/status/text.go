// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// A View says for whom text is made: on a terminal as wide as that is, and in a pipe with all columns, one word in each cell.
type View struct {
	Piped bool // no terminal: neither colours nor a width
	Width int  // of the terminal in characters; 0: not known
	Wide  bool // all columns, whatever the width
	Color bool

	Before *Status // an earlier look at the same daemon, for rates
}

// Text tells all: the daemon, its clients and its problems.
func (s *Status) Text(v View) string {
	p := &page{View: v}
	p.head(s)
	p.line("")
	p.clients(s)
	p.line("")
	p.health(s)
	return p.text.String()
}

// Table is the table of clients alone.
func (s *Status) Table(v View) string {
	p := &page{View: v}
	p.clients(s)
	return p.text.String()
}

// A page is text that is being made. What is written to it is cleaned, since guests and clients choose their names: only its own styles
// have escape sequences.
type page struct {
	View
	text strings.Builder
}

// Styles are the parameters of the escape sequence that begins one.
const (
	bold   = "1"
	red    = "31"
	yellow = "33"
	cyan   = "36"
)

func (v View) styled(style, text string) string {
	if style == "" || !v.Color || v.Piped {
		return Clean(text)
	}
	return "\x1b[" + style + "m" + Clean(text) + "\x1b[0m"
}

// Clean is text as one line that moves no cursor.
func Clean(text string) string { return printable.Line(text, math.MaxInt) }

// line writes a line that is not broken, such as a command.
func (p *page) line(text string) { p.text.WriteString(Clean(text) + "\n") }

// behind writes text behind its label, which has a style. What does not fit goes on below it.
func (p *page) behind(style, label, text string) { p.text.WriteString(p.hang(style, label, text)) }

func (v View) hang(style, label, text string) string {
	text, label = Clean(text), Clean(label)
	if !v.Piped && v.Width > 0 {
		text = printable.Hang(label, text, v.Width)[len(label):]
	}
	return v.styled(style, label) + text + "\n"
}

// Finding is text behind a label in the colour of a severity, and below it what to do, a step each, behind indent. A command is one
// line, so that it can be copied.
func (v View) Finding(indent, severity, label, text string, fix []string) string {
	style, known := map[string]string{"ok": "", Error: red, Warning: yellow}[severity]
	if !known {
		style = cyan
	}
	text = v.hang(style, label, text)
	for _, step := range fix {
		if command, ok := strings.CutPrefix(step, CommandIndent); ok {
			text += indent + "      " + Clean(command) + "\n"
		} else {
			text += v.hang("", indent+"  - ", step)
		}
	}
	return text
}

// head tells of the daemon and its network.
func (p *page) head(s *Status) {
	d, n := s.Daemon, s.Network
	p.behind(bold, "socket_vmnet2 ", d.Version+" at "+d.Socket)
	fields := [][2]string{
		{"network", list(n.Backend, n.Mode+printable.Behind(" on ", n.Interface), n.State)},
		{"", printable.Behind("failed: ", n.Error)},
		{"subnet", list(printable.Valid(n.Subnet), printable.Behind("gateway ", printable.Valid(n.Gateway)), some("MTU %d", n.MTU))},
		{"dhcp", n.DHCP.text()},
	}
	if v := n.Vmnet; v != nil {
		fields = append(fields, [2]string{"vmnet", list(v.API+" API"+behind(" (", v.Why, ")"), fmt.Sprintf("%d own interfaces", v.Own),
			fmt.Sprintf("%d clients share one", v.Shared), some("%d starts failed", int(v.StartFailures)), printable.Behind("the last one: ", v.LastFailure))})
		if w := v.LastWake; w != nil {
			fields = append(fields, [2]string{"woke up", list(fmt.Sprintf("%s ago after %s of sleep", humanDuration(s.Now.Sub(w.At)), seconds(w.Slept)), some("interfaces started again: %d", w.Restarted))})
		}
	}
	if u := n.Usernet; u != nil {
		fields = append(fields, [2]string{"flows", fmt.Sprintf("%d TCP, %d UDP", u.TCPFlows, u.UDPFlows)}, [2]string{"gateway", u.Gateway.text()})
		for _, f := range u.Forwards {
			fields = append(fields, [2]string{"forward", list(fmt.Sprintf("%s %s to %s", f.Proto, f.Host, f.Guest), printable.Behind("failed: ", f.Error))})
		}
	}
	onOff := map[bool]string{true: "on", false: "off"}
	fields = append(fields, [][2]string{
		{"options", fmt.Sprintf("offload %s, isolation %s, anti-spoof %s", onOff[n.Offload], onOff[n.Isolated], onOff[n.AntiSpoof])},
		{"process", list(fmt.Sprintf("%d of user %d", d.PID, d.UID), d.Program, printable.Behind("log level ", d.LogLevel))},
		{"uptime", list(seconds(d.Uptime), strings.Replace(some("upgraded in place %d times", d.Upgrades), "place 1 times", "place once", 1))},
		{"clients", fmt.Sprintf("%d of %d; since start: %s connects, %s refused", len(s.Clients), d.MaxClients, humanCount(s.Totals.Connects), humanCount(s.Totals.Refused))},
	}...)
	for _, f := range fields {
		if f[1] != "" {
			p.behind("", fmt.Sprintf("%-10s", f[0]), f[1])
		}
	}
}

func (d *DHCP) text() string {
	if d == nil {
		return "none"
	}
	leased := ""
	if d.Size > 0 {
		leased = fmt.Sprintf("%d of %d leased", d.Leased, d.Size)
	}
	return list(d.Start.String()+" to "+d.End.String(), leased)
}

// text tells of the process that has DHCP, DNS and NAT.
func (g Gateway) text() string {
	process := ""
	if g.PID != 0 {
		process = fmt.Sprintf("process %d of %s", g.PID, cmp.Or(g.User, fmt.Sprintf("user %d", g.UID)))
	}
	return list(g.State, process+behind(" (", g.Rights, ")"), some("started again %d times", int(g.Restarts))) + printable.Behind(": ", g.Error)
}

// list puts commas between the texts that are not empty.
func list(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), ", ")
}

// some is a number in its text, or nothing if it is 0.
func some(format string, n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(format, n)
}

// behind is text between two others, or nothing if there is none.
func behind(before, text, after string) string {
	if text == "" {
		return ""
	}
	return before + text + after
}

// health tells of what is wrong, with what to do.
func (p *page) health(s *Status) {
	if len(s.Health) == 0 {
		p.line("health: nothing to report")
		return
	}
	p.line(fmt.Sprintf("health: %s", printable.Count(len(s.Health), "problem")))
	for _, problem := range s.Health {
		p.line("")
		since := ""
		if !problem.Since.IsZero() && !s.Now.IsZero() {
			since = "for " + humanDuration(s.Now.Sub(problem.Since))
		}
		text := problem.Code + ": " + problem.Text + behind(" (", list(since, s.named(problem.Clients)), ")")
		p.text.WriteString(p.Finding("", problem.Severity, problem.Severity+" ", text, problem.Fix))
	}
}

// maxNamed is how many clients a problem names.
const maxNamed = 8

// named are clients by number and name.
func (s *Status) named(ids []uint64) string {
	var names []string
	for _, id := range ids[:min(len(ids), maxNamed)] {
		text := strconv.FormatUint(id, 10)
		if i := slices.IndexFunc(s.Clients, func(c Client) bool { return c.ID == id }); i >= 0 {
			text += printable.Behind(" ", s.Clients[i].Called())
		}
		names = append(names, text)
	}
	if len(ids) == 1 {
		return "client " + names[0]
	}
	return printable.Behind("clients ", list(append(names, some("%d more", max(0, len(ids)-maxNamed)))...))
}

// domain is that of guests in the embedded network's DNS.
const domain = "vmnet.internal"

// maxLabel is the longest that a part of a host name may be, in bytes: RFC 1035, 2.3.4.
const maxLabel = 63

// reserved are names that no guest gets: others depend on what they mean.
var reserved = []string{"localhost", "localdomain", "broadcasthost", "gateway", "host", "local", "internal", "wpad"}

// Hosts are lines for /etc/hosts: each address once, and each name once. A guest's name is cut at its first dot, so that none
// can take that of another host.
func (s *Status) Hosts() string {
	p := &page{View: View{Piped: true}}
	p.line("# guests of socket_vmnet2 at " + s.Daemon.Socket)
	type guest struct {
		ip   netip.Addr
		name string
	}
	var guests []guest
	add := func(ip netip.Addr, names ...string) {
		name := ""
		for _, n := range names {
			name = cmp.Or(name, label(n))
		}
		known := func(g guest) bool { return g.ip == ip || g.name == name }
		if ip.IsValid() && name != "" && !slices.ContainsFunc(guests, known) {
			guests = append(guests, guest{ip.WithZone(""), name})
		}
	}
	if d := s.Network.DHCP; d != nil {
		for _, l := range d.Leases {
			if l.Name != "" { // first, since the network's DNS has these
				add(l.IP, l.Name)
			}
		}
		for _, l := range d.Leases {
			add(l.IP, l.Hostname)
		}
	}
	for _, c := range s.Clients {
		add(c.IP, c.Hostname, c.Name)
	}
	slices.SortFunc(guests, func(a, b guest) int { return a.ip.Compare(b.ip) })
	for _, g := range guests {
		p.line(fmt.Sprintf("%s %s.%s %s", g.ip, g.name, domain, g.name))
	}
	return p.text.String()
}

// others are the characters that host names do not have.
var others = regexp.MustCompile("[^a-z0-9]+")

// label is a name as a part of a host name; empty if nothing is left of it, or others have it.
func label(name string) string {
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	name = others.ReplaceAllString(name, "-")
	name = strings.Trim(name[:min(len(name), maxLabel)], "-")
	if slices.Contains(reserved, name) || strings.Trim(name, "0123456789") == "" { // digits alone could be an address
		return ""
	}
	return name
}
