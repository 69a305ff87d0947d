// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"fmt"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// identities hands out interface identities as vmnet does, so that a client of either finds the same: one that asks for an
// identity has it, one that says who it is has the same one each time, and of the others each has one of a row.
type identities struct {
	space network.ID // the gateway's

	mu   sync.Mutex
	live map[network.ID]struct{}
}

func (s *identities) init(space network.ID) { s.space, s.live = space, map[network.ID]struct{}{} }

// take is an identity for o that no other port has until it is freed.
func (s *identities) take(o network.PortOptions) (network.ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := o.InterfaceID; id != (network.ID{}) {
		if !s.claim(id) {
			return network.ID{}, fmt.Errorf("interface %s: %w", network.IDText(id), network.ErrIDInUse)
		}
		return id, nil
	}
	name := o.ID
	for i := 1; ; i++ {
		switch {
		case o.ID == "":
			name = fmt.Sprintf("slot %d", i)
		case i > 1:
			name = fmt.Sprintf("%s #%d", o.ID, i)
		}
		if id := network.DeriveID(s.space, name); s.claim(id) {
			return id, nil
		}
	}
}

// claim notes id unless it is taken. The caller holds mu.
func (s *identities) claim(id network.ID) bool {
	if _, taken := s.live[id]; taken || id == s.space {
		return false
	}
	s.live[id] = struct{}{}
	return true
}

// free gives an identity back.
func (s *identities) free(id network.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, id)
}
