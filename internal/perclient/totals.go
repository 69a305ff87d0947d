// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"maps"
	"slices"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
)

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
