// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// Reasons for drops and for DHCP requests without an answer, as the status names them.
const (
	dropStorm     = "drop_storm"
	dropQueueFull = "drop_queue_full"
	dropSpoofed   = "drop_spoofed"
	dropOversize  = "drop_oversize"

	portFull = "port_full"
)

// Back ends and modes, as the status names them.
const (
	usernet = "usernet"
	vmnet   = "vmnet"
	bridged = "bridged"
	host    = "host"
)

// maxOfOne bounds the problems with one code: guests decide how many addresses they quarrel about.
const maxOfOne = 8

// A finding is a problem that a rule has found.
type finding struct {
	status.Problem
	of    string // tells it from others with its code, such as the address; empty if there is only one
	cause string // for the log, of a problem with DHCP
}

// A view is what the rules see.
type view struct {
	*status.Status
	opts     *Options
	base     *sample // nil on the first look
	active   map[uint64]traffic
	episodes map[string]episode // of the last look
	overlaps []freenet.Conflict
	free     netip.Prefix // a subnet that is free instead; invalid: none was found

	programGone     bool
	programReplaced time.Time

	suspicious bool // set by rules that may know more on the next look
}

// rules are all there are, in the order in which problems of equal weight are told.
var rules = []func(*view) []finding{
	networkNotRunning, sharingBusy, subnetOverlap, noDHCP, poolFilling, duplicateIP, duplicateMAC, noInterface, stalled, slow,
	storm, flapping, offloadMixed, sharedInterface, refused, gatewayDown, forwards, notKept, replaced,
}

// Problems tells what is wrong with the daemon that st describes, the worst first; Health in st is not looked at. What is new and
// bad is also logged, once.
func (m *Monitor) Problems(st status.Status) []status.Problem {
	if m == nil {
		return []status.Problem{}
	}
	m.look.Lock()
	defer m.look.Unlock()
	v := m.view(&st)
	var found []finding
	for _, rule := range rules {
		found = append(found, bounded(rule(v))...)
	}
	slices.SortStableFunc(found, func(a, b finding) int { return cmp.Compare(weight(a.Severity), weight(b.Severity)) })
	told := m.remember(v, found)
	m.note(time.Now(), told, v.suspicious)
	problems := make([]status.Problem, len(found))
	for i, f := range found {
		problems[i] = f.Problem
		problems[i].Text = sentence(f.Text)
		if problems[i].Clients == nil {
			problems[i].Clients = []uint64{}
		}
	}
	return problems
}

// view collects what the rules look at. m.look is held.
func (m *Monitor) view(st *status.Status) *view {
	v := &view{Status: st, opts: &m.opts, base: m.memory.compare(st)}
	m.memory.sending(st)
	v.active = m.memory.active
	v.episodes = m.memory.episodes
	v.programGone, v.programReplaced = m.memory.replaced(st.Now, st.Daemon.Program)
	if n := &st.Network; n.Mode != bridged && n.Subnet.IsValid() {
		if t := m.memory.table(st.Now, m.opts.Addresses); t != nil {
			v.overlaps = foreign(t.Overlaps(n.Subnet), n)
			if len(v.overlaps) > 0 {
				v.free, _ = t.Choose(max(n.Subnet.Bits(), freenet.MinBits), n.Subnet)
			}
		}
	}
	return v
}

// foreign is list without what is the network's own: on vmnet, the host's interface in it has the gateway's address.
func foreign(list []freenet.Conflict, n *status.Network) (found []freenet.Conflict) {
	for _, c := range list {
		if n.Backend != vmnet || c.Prefix.Addr() != n.Gateway {
			found = append(found, c)
		}
	}
	return found
}

// bounded is found with at most maxOfOne problems, the last of which says how many there are.
func bounded(found []finding) []finding {
	if more := len(found) - maxOfOne; more > 0 {
		found = found[:maxOfOne]
		found[maxOfOne-1].Text += fmt.Sprintf(" (and %d more like this)", more)
	}
	return found
}

// sentence begins with a capital letter where it begins with a client.
func sentence(text string) string {
	if rest, ok := strings.CutPrefix(text, "client "); ok {
		return "Client " + rest
	}
	return text
}

func weight(severity string) int {
	return slices.Index([]string{status.Error, status.Warning, status.Notice}, severity)
}

// was reports whether the problem was found on the last look, and since tells since when it is there.
func (v *view) was(code, of string) bool { return !v.since(code, of).IsZero() }

func (v *view) since(code, of string) time.Time { return v.episodes[key(code, of)].since }

func key(code, of string) string { return code + " " + of }

// name tells a client as the log does, and by what else is known of it.
func name(c *status.Client) string {
	known := make([]string, 0, 2)
	for _, s := range []string{cmp.Or(c.Name, c.Hostname), c.MAC} {
		if s != "" {
			known = append(known, s)
		}
	}
	if len(known) == 0 {
		return fmt.Sprintf("client %d", c.ID)
	}
	return fmt.Sprintf("client %d (%s)", c.ID, strings.Join(known, ", "))
}

// maxNamed is how many clients a sentence names.
const maxNamed = 4

// names tells several clients.
func names(list []*status.Client) string {
	if len(list) == 1 {
		return name(list[0])
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d clients (", len(list))
	for i, c := range list {
		if i == maxNamed {
			fmt.Fprintf(&b, " and %d more", len(list)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, c.ID)
	}
	return b.String() + ")"
}

func ids(list []*status.Client) []uint64 {
	out := make([]uint64, len(list))
	for i, c := range list {
		out[i] = c.ID
	}
	return out
}

// verb is one for a single client, else many.
func verb(list []*status.Client, one, many string) string {
	if len(list) == 1 {
		return one
	}
	return many
}

// span tells a duration to a person.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(int(d.Round(time.Second)/time.Second), 1))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d/time.Minute))
	}
	return fmt.Sprintf("%d h", int(d/time.Hour))
}

// which are the clients that yes holds for.
func (v *view) which(yes func(*status.Client) bool) (list []*status.Client) {
	for i := range v.Clients {
		if c := &v.Clients[i]; yes(c) {
			list = append(list, c)
		}
	}
	return list
}
