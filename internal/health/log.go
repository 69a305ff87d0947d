// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// waiting are the lines for guests that wait for an address, by code.
var waiting = map[string]string{
	status.NoDHCPAnswer:  "a guest gets no address: nobody answers its DHCP requests",
	status.DHCPDisabled:  "a guest gets no address: it asks for one, and this network has no DHCP server",
	status.PoolExhausted: "a guest gets no address: there are none left",
}

// logged are the lines for other problems that are worth one when they are first found. What is not here is told by who drops or
// refuses, or only to who asks.
var logged = map[string]string{
	status.DuplicateIP:   "two guests use one IP address",
	status.DuplicateMAC:  "two clients use one MAC address",
	status.SubnetOverlap: "this network's addresses are used by another network of this host",
}

// remember keeps what was found for the next look, sets the times since when it is, and logs what is new. It returns the clients
// that were told to wait for an address. m.look is held.
func (m *Monitor) remember(v *view, found []finding) map[uint64]bool {
	next, told := make(map[string]episode, len(found)), map[uint64]bool{}
	for i := range found {
		f := &found[i]
		k := key(f.Code, f.of)
		e, ok := m.memory.episodes[k]
		if !ok {
			e.since = v.Now
			if !f.Since.IsZero() {
				e.since = f.Since
			}
		}
		if f.Since.IsZero() {
			f.Since = e.since
		}
		if f.cause == "" {
			if !e.told && logged[f.Code] != "" && f.Severity != status.Notice {
				e.told = true
				m.warn(f, logged[f.Code], "clients", f.Clients, "problem", f.Text)
			}
		} else {
			m.warnWaiting(v, f, next, told)
		}
		next[k] = e
	}
	m.tellEnded(v, next)
	m.memory.episodes = next
	return told
}

// waitingKey is the episode of one client that waits for DHCP, whatever the cause.
func waitingKey(id uint64) string { return key("waiting", fmt.Sprint(id)) }

// warnWaiting logs each client of f that waits for DHCP, once.
func (m *Monitor) warnWaiting(v *view, f *finding, next map[string]episode, told map[uint64]bool) {
	for i := range v.Clients {
		c := &v.Clients[i]
		if !waits(c) || !slices.Contains(f.Clients, c.ID) {
			continue
		}
		k := waitingKey(c.ID)
		e := m.memory.episodes[k]
		if !e.told {
			e.since = v.Now.Add(-seconds(c.DHCP.Waiting))
			if e.told = true; e.since.Add(answerTime).After(m.began) { // else the program before an upgrade has said so
				m.warn(f, waiting[f.Code], "client", c.ID, "mac", c.MAC, "for", seconds(c.DHCP.Waiting).Round(time.Second),
					"discovers", c.DHCP.Discovers, "requests", c.DHCP.Requests, "cause", f.cause)
			}
		}
		next[k], told[c.ID] = e, true
	}
}

// warn logs f.
func (m *Monitor) warn(f *finding, line string, args ...any) {
	if fix := oneLine(f.Fix); fix != "" {
		args = append(args, "try", fix)
	}
	m.opts.Log.Warn(line, args...)
}

// oneLine is the steps of a fix behind each other.
func oneLine(fix []string) string {
	var b strings.Builder
	for i, s := range fix {
		command := strings.TrimPrefix(s, commandIndent)
		switch {
		case i == 0:
		case command != s && strings.HasPrefix(fix[i-1], commandIndent):
			b.WriteString("; ")
		default:
			b.WriteString(" ")
		}
		b.WriteString(command)
	}
	return b.String()
}

// tellEnded logs the clients that are still there and wait no more. m.look is held.
func (m *Monitor) tellEnded(v *view, next map[string]episode) {
	for i := range v.Clients {
		c := &v.Clients[i]
		k := waitingKey(c.ID)
		e, was := m.memory.episodes[k]
		if _, is := next[k]; !was || is {
			continue
		}
		if c.DHCP.Waiting > 0 { // it has no port for the moment, or the network is away: that is told, and this was
			next[k] = e
			continue
		}
		m.opts.Log.Info("the guest waits for no address any more", "client", c.ID, "mac", c.MAC, "ip", ipText(c),
			"after", v.Now.Sub(e.since).Round(time.Second))
	}
}

func ipText(c *status.Client) string {
	if c.IP.IsValid() {
		return c.IP.String()
	}
	return "none"
}
