// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

const (
	// window is the least time over which the growth of counters is told, once there was a look that long ago.
	window = 10 * time.Second

	// recent is the time within which growth is news: longer ago it may be over.
	recent = time.Minute
)

// A memory is what the looks so far have left. It grows with the clients that there are now, and no further.
type memory struct {
	base, pending *sample            // base is a window older than the looks that are compared with it
	episodes      map[string]episode // what goes on, by code and what it is about

	program os.FileInfo // of the running program; nil: not known
}

// An episode is a problem from its first to its last look, or that a client's guest waits for DHCP, whatever the cause.
type episode struct {
	since time.Time
	waits uint64 // the client; 0: it is a problem
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

// replaced tells whether another file is at path than on the first look, and since when.
func (m *memory) replaced(path string) (gone bool, since time.Time) {
	is, err := os.Stat(path)
	switch was := m.program; {
	case was == nil:
		m.program = is
	case err != nil:
		return true, since
	case !os.SameFile(was, is) || was.Size() != is.Size() || !was.ModTime().Equal(is.ModTime()):
		return false, is.ModTime()
	}
	return false, since
}

// lines are those of the log for problems that are worth one when they are first found. What is not here is told by what drops or
// refuses, or only on request. The first three are told for each guest that waits.
var lines = map[string]string{
	status.NoDHCPAnswer:  "a guest gets no address: no server answers its DHCP requests",
	status.DHCPDisabled:  "a guest gets no address: it asks for one, and this network has no DHCP server",
	status.PoolExhausted: "a guest gets no address: there are none left",
	status.DuplicateIP:   "two guests use one IP address",
	status.DuplicateMAC:  "two clients use one MAC address",
	status.SubnetOverlap: "this network's addresses are used by another network of this host",
}

// remember keeps what was found for the next look, sets the times since when it is, and logs what is new. m.look is held.
func (m *Monitor) remember(v *view) {
	next := make(map[string]episode, len(v.all))
	for _, f := range v.all {
		if f.waits {
			m.warn(f, slices.DeleteFunc(slices.Clone(f.Clients), func(id uint64) bool {
				k := fmt.Sprint("waits ", id)
				next[k] = episode{waits: id}
				// Of one that waits for longer than this Monitor is there, the program before an upgrade has told.
				_, known := v.episodes[k]
				return known || !v.Now.Add(answerTime-seconds(v.client(id).DHCP.Waiting)).After(m.began)
			}))
			continue
		}
		k := f.Code + " " + f.of
		e, known := v.episodes[k]
		if !known {
			e.since = v.Now
			if f.Code != status.PoolExhausted {
				m.warn(f, f.Clients)
			}
		}
		if f.Since.IsZero() {
			f.Since = e.since
		}
		next[k] = e
	}
	for k, e := range v.episodes { // of clients that are still there
		switch c := v.client(e.waits); {
		case c == nil || next[k].waits != 0:
		case c.DHCP.Waiting > 0: // it has no port for the moment, or the network is away: that is told, and this was
			next[k] = e
		default:
			m.opts.Log.Info("the guest waits for no address any more", "client", c.ID, "mac", c.MAC, "ip", c.IP)
		}
	}
	m.memory.episodes = next
}

// client is the one with this number, nil if there is none.
func (v *view) client(id uint64) *status.Client {
	i := slices.IndexFunc(v.Clients, func(c status.Client) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &v.Clients[i]
}

// warn logs f as it concerns some of its clients, with its steps in one line.
func (m *Monitor) warn(f *finding, clients []uint64) {
	if lines[f.Code] == "" || len(f.Clients) > 0 && len(clients) == 0 {
		return
	}
	fix := strings.ReplaceAll(strings.Join(f.Fix, "\n"), "\n"+status.CommandIndent, "\n; ")
	fix = strings.NewReplacer(":\n; ", ": ", "\n; ", "; ", "\n", " ").Replace(fix)
	m.opts.Log.Warn(lines[f.Code], "clients", clients, "problem", f.Text, "try", fix)
}
