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
	active        map[uint64]traffic // when each client was seen to send
	episodes      map[string]episode // what goes on, by code and what it is about

	addresses     *freenet.Table
	addressesRead time.Time

	program        os.FileInfo // of the running program; nil: not known
	programNow     os.FileInfo // what was found at its path; nil: nothing
	programChecked time.Time
}

// A traffic is what a client had sent, and when it was seen that it had sent more than before.
type traffic struct {
	frames uint64
	active time.Time
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

// Counters of one client.
type counters struct{ moves, storm, queueFull, oversize uint64 }

func newMemory() memory {
	return memory{active: map[uint64]traffic{}, episodes: map[string]episode{}}
}

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
	return counters{
		moves: c.MACMoves, storm: c.ToNet.Drops[dropStorm], queueFull: c.ToClient.Drops[dropQueueFull],
		oversize: c.ToClient.Drops[dropOversize],
	}
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

// sending notes which clients have sent something since the last look. A client whose first look this is counts if it is young.
func (m *memory) sending(st *status.Status) {
	next := make(map[uint64]traffic, len(st.Clients))
	for i := range st.Clients {
		c := &st.Clients[i]
		t, known := m.active[c.ID]
		if c.ToNet.Frames != t.frames && (known || seconds(c.Age) < recent) {
			t.active = st.Now
		}
		t.frames = c.ToNet.Frames
		next[c.ID] = t
	}
	m.active = next
}

// table is what uses addresses of this host, nil if that cannot be told.
func (m *memory) table(now time.Time, read func() (*freenet.Table, error)) *freenet.Table {
	if read == nil {
		return nil
	}
	if age := now.Sub(m.addressesRead); m.addresses == nil || age < 0 || age >= addressesTime {
		m.addresses, _ = read() // what it lacks it cannot warn of
		m.addressesRead = now
	}
	return m.addresses
}

// replaced tells whether another file is at path than on the first look, and since when.
func (m *memory) replaced(now time.Time, path string) (gone bool, since time.Time) {
	if path == "" {
		return false, time.Time{}
	}
	if age := now.Sub(m.programChecked); age < 0 || age >= addressesTime {
		m.programChecked = now
		m.programNow, _ = os.Stat(path)
		if m.program == nil {
			m.program = m.programNow
		}
	}
	switch {
	case m.program == nil:
		return false, time.Time{}
	case m.programNow == nil:
		return true, time.Time{}
	case os.SameFile(m.program, m.programNow) && m.program.Size() == m.programNow.Size() && m.program.ModTime().Equal(m.programNow.ModTime()):
		return false, time.Time{}
	}
	return false, m.programNow.ModTime()
}
