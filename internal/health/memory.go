// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

const (
	// window is the least time over which the growth of counters is told, once there was a look that long ago.
	window = 10 * time.Second

	// recent is the time within which growth is news: longer ago it may be over.
	recent = time.Minute

	// addressesTime is how long the table of this host's addresses is used, and what was found out about the program: reading
	// either takes system calls.
	addressesTime = 30 * time.Second
)

// A memory is what the looks so far have left. It grows with the clients that there are now, and no further.
type memory struct {
	base, pending *sample            // base is a window older than the looks that are compared with it
	episodes      map[string]episode // what goes on, by code and what it is about

	addresses     *freenet.Table
	addressesRead time.Time

	program        os.FileInfo // of the running program; nil: not known
	programNow     os.FileInfo // what was found at its path; nil: nothing
	programChecked time.Time
}

// An episode is a problem from its first to its last look.
type episode struct {
	since time.Time
	told  bool // it was logged, or was on an earlier program's log
}

// A sample is the counters of one look.
type sample struct {
	at       time.Time
	clients  map[uint64]counters
	refused  uint64
	portFull uint64
}

// counters of one client.
type counters struct{ sent, moves, storm, queueFull, oversize uint64 }

// take makes a sample of st.
func take(st *status.Status) *sample {
	s := &sample{at: st.Now, clients: make(map[uint64]counters, len(st.Clients)), refused: st.Totals.Refused}
	if d := st.Network.DHCP; d != nil {
		s.portFull = d.Unanswered[portFull]
	}
	for i := range st.Clients {
		s.clients[st.Clients[i].ID] = countersOf(&st.Clients[i])
	}
	return s
}

func countersOf(c *status.Client) counters {
	return counters{c.ToNet.Frames, c.MACMoves, c.ToNet.Drops["drop_storm"], c.ToClient.Drops[dropQueueFull], c.ToClient.Drops["drop_oversize"]}
}

// compare is the sample that st is compared with, nil on the first look, and keeps one of st for later.
func (m *memory) compare(st *status.Status) *sample {
	switch {
	case m.pending == nil || st.Now.Before(m.pending.at): // the clock was set back
		m.base, m.pending = nil, take(st)
		return nil
	case st.Now.Sub(m.pending.at) >= window:
		m.base, m.pending = m.pending, take(st)
	case m.base == nil:
		return m.pending
	}
	return m.base
}

// stale tells whether what was found out at a time is to be found out again.
func stale(now, at time.Time) bool { return now.Before(at) || now.Sub(at) >= addressesTime }

// table is what uses addresses of this host, nil if that cannot be told.
func (m *memory) table(now time.Time, read func() (*freenet.Table, error)) *freenet.Table {
	if read != nil && stale(now, m.addressesRead) {
		m.addresses, _ = read() // what it lacks it cannot warn of
		m.addressesRead = now
	}
	return m.addresses
}

// replaced tells whether another file is at path than on the first look, and since when.
func (m *memory) replaced(now time.Time, path string) (gone bool, since time.Time) {
	if path != "" && stale(now, m.programChecked) {
		m.programChecked = now
		m.programNow, _ = os.Stat(path)
		if m.program == nil {
			m.program = m.programNow
		}
	}
	was, is := m.program, m.programNow
	switch {
	case was == nil:
		return false, time.Time{}
	case is == nil:
		return true, time.Time{}
	case os.SameFile(was, is) && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime()):
		return false, time.Time{}
	}
	return false, is.ModTime()
}

// lines are those of the log for problems that are worth one when they are first found. What is not here is told by what drops or
// refuses, or only to those who ask. The first three are told for each guest that waits.
var lines = map[string]string{
	status.NoDHCPAnswer:  "a guest gets no address: nobody answers its DHCP requests",
	status.DHCPDisabled:  "a guest gets no address: it asks for one, and this network has no DHCP server",
	status.PoolExhausted: "a guest gets no address: there are none left",
	status.DuplicateIP:   "two guests use one IP address",
	status.DuplicateMAC:  "two clients use one MAC address",
	status.SubnetOverlap: "this network's addresses are used by another network of this host",
}

func key(code, of string) string { return code + " " + of }

// waitingKey is the episode of one client that waits for DHCP, whatever the cause.
func waitingKey(id uint64) string { return key("waiting", fmt.Sprint(id)) }

// remember keeps what was found for the next look, sets the times since when it is, and logs what is new. m.look is held.
func (m *Monitor) remember(v *view, all []finding) {
	next := make(map[string]episode, len(all))
	for i := range all {
		f := &all[i]
		k := key(f.Code, f.of)
		e, ok := v.episodes[k]
		if !ok {
			e.since = v.Now
		}
		switch {
		case f.Since.IsZero():
			f.Since = e.since
		case !ok:
			e.since = f.Since
		}
		line := lines[f.Code]
		switch {
		case f.cause != "":
			m.warnWaiting(v, f, next)
		case line != "" && f.Code != status.PoolExhausted && f.Severity != status.Notice && !e.told:
			e.told = true
			m.warn(f, "clients", f.Clients, "problem", f.Text)
		}
		next[k] = e
	}
	m.tellEnded(v, next)
	m.memory.episodes = next
}

// warnWaiting logs each client of f that waits for DHCP, once.
func (m *Monitor) warnWaiting(v *view, f *finding, next map[string]episode) {
	for _, c := range v.which(waits) {
		if !slices.Contains(f.Clients, c.ID) {
			continue
		}
		k := waitingKey(c.ID)
		e := v.episodes[k]
		if !e.told {
			e = episode{since: v.Now.Add(-seconds(c.DHCP.Waiting)), told: true}
			if e.since.Add(answerTime).After(m.began) { // else the program before an upgrade has said so
				m.warn(f, "client", c.ID, "mac", c.MAC, "for", seconds(c.DHCP.Waiting).Round(time.Second),
					"discovers", c.DHCP.Discovers, "requests", c.DHCP.Requests, "cause", f.cause)
			}
		}
		next[k] = e
	}
}

// warn logs f, with its steps in one line.
func (m *Monitor) warn(f *finding, args ...any) {
	fix := ""
	for i, step := range f.Fix {
		text, command := strings.CutPrefix(step, commandIndent)
		switch {
		case i == 0:
		case command && strings.HasPrefix(f.Fix[i-1], commandIndent):
			fix += "; "
		default:
			fix += " "
		}
		fix += text
	}
	m.opts.Log.Warn(lines[f.Code], append(args, "try", fix)...)
}

// tellEnded logs the clients that are still there and wait no more. m.look is held.
func (m *Monitor) tellEnded(v *view, next map[string]episode) {
	for i := range v.Clients {
		c := &v.Clients[i]
		k := waitingKey(c.ID)
		e, was := v.episodes[k]
		if _, is := next[k]; !was || is {
			continue
		}
		if c.DHCP.Waiting > 0 { // it has no port for the moment, or the network is away: that is told, and this was
			next[k] = e
			continue
		}
		ip := "none"
		if c.IP.IsValid() {
			ip = c.IP.String()
		}
		m.opts.Log.Info("the guest waits for no address any more", "client", c.ID, "mac", c.MAC, "ip", ip, "after", v.Now.Sub(e.since).Round(time.Second))
	}
}
