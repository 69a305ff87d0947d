// SPDX-License-Identifier: Apache-2.0

package health

import (
	"os"
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
