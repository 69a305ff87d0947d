// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// stalledAfter is for how long a client that is behind may take nothing before it is told from one that is only slow.
const stalledAfter = 3 * time.Second

// ErrNoClient is the outcome of Kick where there is no client of this number.
var ErrNoClient = errors.New("no such client")

// An Info is what is known of a client at one moment.
type Info struct {
	ID        uint64
	Name      string // that it calls itself
	Transport string // status.Stream and so on
	Path      string // of a datagram client's socket
	FD        int    // as in the log
	Peer      hostfs.Peer
	MAC       net.HardwareAddr // of its guest: that of its first frame, else the one that it has named; nil: not known
	Watch     watch.Snapshot

	State string // status.StateQuiet and so on
	Err   error  // why it has no port, while that is tried again
	Began time.Time

	Link       link.Stats
	QueueLimit int               // bytes
	DropHeld   uint64            // frames from the client that were dropped because its port took too long to start
	Spoofed    uint64            // frames from the client that its guard dropped
	Ports      network.PortStats // of all ports it has had
	Port       *network.PortInfo // nil while it has none
}

// A phase is where a session is in its life, as its keeper sees it.
type phase struct {
	started atomic.Bool           // one is wanted
	failed  atomic.Pointer[error] // why there is none; nil: it is not known yet, or there is one
	leaving atomic.Bool           // the daemon closes it, or it has gone
}

// state is as info tells it.
func (c *Session) state(st link.Stats) (state string, err error) {
	if e := c.phase.failed.Load(); e != nil {
		err = *e
	}
	switch {
	case c.phase.leaving.Load():
		return status.StateLeaving, nil
	case c.send.Load() != nil && st.Stalled >= stalledAfter:
		return status.StateStalled, nil
	case c.send.Load() != nil:
		return status.StateRunning, nil
	case c.phase.started.Load():
		return status.StateStarting, err
	}
	return status.StateQuiet, nil
}

// Transport is how the client came, status.Stream and so on.
func (c *Session) Transport() string { return c.client.Transport }

// info is what is known of the session's client now. It waits for nothing: no lock is held while the port is asked.
func (c *Session) info() Info {
	st, known := c.link.Stats(), c.watch.Snapshot()
	i := Info{
		ID: c.id, Name: c.client.Name, Transport: c.client.Transport, Path: c.client.Path, FD: c.link.Fd(), Peer: c.client.Peer,
		MAC: known.MAC, Watch: known, Began: c.began,
		Link: st, QueueLimit: cmp.Or(c.srv.opts.QueueSize, link.DefaultQueueSize),
	}
	if i.MAC == nil {
		i.MAC = c.client.MAC
	}
	i.State, i.Err = c.state(st)
	i.DropHeld = c.dropHeld.Load()
	c.telling.Lock()
	p := c.live
	i.Ports = c.ports
	c.telling.Unlock()
	if p != nil {
		info := p.Info()
		i.Ports, i.Port = i.Ports.Plus(p.Stats()), &info
	}
	i.Spoofed, _ = c.guardDrops()
	return i
}

// List is what is known of each client that is connected now, by ID. It holds up no client and waits for none.
func (s *Server) List() []Info {
	return infos(s.Sessions())
}

func infos(sessions []*Session) []Info {
	list := make([]Info, 0, len(sessions))
	for _, c := range sessions {
		list = append(list, c.info())
	}
	slices.SortFunc(list, func(a, b Info) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Kick ends the session of this number in order. ended is closed when nothing of it is left. reason is logged.
func (s *Server) Kick(id uint64, reason error) (ended <-chan struct{}, err error) {
	for _, c := range s.Sessions() {
		if c.id == id {
			c.End(reason)
			return c.Done(), nil
		}
	}
	return nil, fmt.Errorf("%w: %d", ErrNoClient, id)
}

// Totals are what all clients did since the start of the daemon, those that have left included.
type Totals struct {
	Connects uint64            `json:"connects"`
	Refused  uint64            `json:"refused"` // above MaxClients
	Link     link.Stats        `json:"link"`    // but Queued and Stalled
	DropHeld uint64            `json:"drop_held"`
	Spoofed  uint64            `json:"spoofed"`
	Ports    network.PortStats `json:"ports"`
}

// add adds what one client did.
func (t *Totals) add(i Info) {
	t.Link.Add(i.Link)
	t.DropHeld += i.DropHeld
	t.Spoofed += i.Spoofed
	t.Ports = t.Ports.Plus(i.Ports)
}

// Census is List with the Totals of the same moment: a client that leaves meanwhile is in them once.
func (s *Server) Census() (clients []Info, t Totals) {
	s.mu.Lock()
	t = s.gone
	sessions := slices.Collect(maps.Keys(s.sessions))
	s.mu.Unlock()
	clients = infos(sessions)
	for _, i := range clients {
		t.add(i)
	}
	return clients, t
}

// Gone is what clients did that have left, for the program that takes this one's place. What is left of a session
// that is not attached again is lost.
func (s *Server) Gone() Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// Recall takes over what another program has saved. It is called before the first client is served.
func (s *Server) Recall(t Totals) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = t
}
