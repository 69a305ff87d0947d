// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"fmt"
	"net"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/watch"
)

// maxHeldSaved is how much of a client's input that waits for its port goes over an upgrade, in bytes of wire form. More
// waits only while a port fails to start.
const maxHeldSaved = 16 << 10

// Saved is a session that stands still, for the program that takes this one's place.
type Saved struct {
	ID       uint64                     `json:"id"`
	Client   SavedClient                `json:"client"`
	Began    time.Time                  `json:"began"`
	Watch    watch.Saved                `json:"watch"`
	Link     link.Saved                 `json:"link"`
	Held     []byte                     `json:"held,omitempty"` // frames in wire form that wait for the port
	DropHeld uint64                     `json:"drop_held,omitempty"`
	Drops    map[vnet.DropReason]uint64 `json:"drops,omitempty"`
	Lost     map[vnet.DropReason]uint64 `json:"lost,omitempty"`

	Moved     uint64 `json:"moved,omitempty"`
	Unlearned uint64 `json:"unlearned,omitempty"`
}

// SavedClient is what a Client says that is not its owner's to say again.
type SavedClient struct {
	Name        string           `json:"name,omitempty"`
	MAC         net.HardwareAddr `json:"mac,omitempty"`
	InterfaceID [16]byte         `json:"interface_id,omitzero"`
	Identity    string           `json:"identity,omitempty"` // by which its port was started
	Peer        peercred.Peer    `json:"peer"`
}

// Save is the session as another program restores it. It is called between Pause and Resume, and only for a session that has
// not ended; ok is false for one whose client has gone meanwhile. Frames that wait for the client are dropped and counted.
func (c *Session) Save() (v Saved, ok bool) {
	l, pausable := c.link.(link.Pausable)
	select {
	case <-c.done:
		return v, false
	default:
	}
	if !pausable || c.ctx.Err() != nil || l.Gone() {
		return v, false
	}
	v = Saved{
		ID:    c.id,
		Began: c.began,
		Watch: c.watch.Save(),
		Link:  l.Save(),
		Client: SavedClient{
			Name: c.client.Name, MAC: c.client.MAC, InterfaceID: c.client.InterfaceID, Identity: c.identity(),
			Peer: c.client.Peer,
		},
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kept, end := c.heldN, len(c.held)
	if end > maxHeldSaved {
		kept, end = 0, 0
		it := frame.NewBatch(c.held, c.heldN).Iter()
		for it.Next() && it.End() <= maxHeldSaved {
			kept, end = kept+1, it.End()
		}
	}
	v.Held = c.held[:end]
	v.DropHeld = c.dropHeld.Load() + uint64(c.heldN-kept)
	c.telling.Lock()
	p := c.ports.clone()
	c.telling.Unlock()
	v.Drops, v.Lost, v.Moved, v.Unlearned = p.Drops, p.Lost, p.Moved, p.Unlearned
	return v, true
}

// Restore serves a client that was saved as v, by its link l. Its Log and Ended are o's, everything else is v's. Its port
// starts at once, and it sends once those of all others that are restored before Restored have. As with Serve, l stays the
// caller's if there is an error.
func (s *Server) Restore(l link.Link, o Client, v Saved) (*Session, error) {
	held, err := frames(v.Held)
	if err != nil {
		return nil, fmt.Errorf("restore client %d: %w", v.ID, err)
	}
	o.Name, o.MAC, o.InterfaceID, o.Start = v.Client.Name, v.Client.MAC, v.Client.InterfaceID, true
	o.Peer = v.Client.Peer
	s.mu.Lock()
	defer s.mu.Unlock()
	c := newSession(s, v.ID, l, o)
	c.restored = true
	if s.gather == nil {
		s.gather = newGathering(1)
	}
	s.gather.join()
	c.rejoin = s.gather
	c.began = v.Began
	c.named = v.Client.Identity
	c.watch.Restore(v.Watch)
	c.seen = v.Watch.MAC != nil
	c.held, c.heldN = v.Held, held
	c.dropHeld.Store(v.DropHeld)
	c.ports = PortTotals{Drops: v.Drops, Lost: v.Lost, Moved: v.Moved, Unlearned: v.Unlearned}
	s.lastID = max(s.lastID, v.ID)
	s.sessions[c] = struct{}{}
	if !s.recalled {
		s.gone.Connects++
	}
	if s.stopping {
		c.shutdown(link.DrainStop)
	}
	s.running.Go(c.run)
	return c, nil
}

// Restored tells that Restore was called for all clients there are.
func (s *Server) Restored() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gather != nil {
		s.gather.arrived()
		s.gather = nil
	}
}

// frames is how many whole frames b holds. Anything else in it is an error.
func frames(b []byte) (n int, err error) {
	for rest := b; len(rest) > 0; {
		batch, used, runts, err := frame.Scan(rest)
		if err != nil || used == 0 || runts > 0 || len(rest) > maxHeld {
			return 0, fmt.Errorf("%d saved bytes are not whole frames", len(b))
		}
		n += batch.Len()
		rest = rest[used:]
	}
	return n, nil
}
