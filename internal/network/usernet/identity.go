// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"fmt"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// identities hands out interface identities as vmnet does, so that a client of either finds the same: one that asks for an
// identity has it, one that says what it is has the same one each time, and of the others each has one of a row.
type identities struct {
	space network.ID // the gateway's

	mu   sync.Mutex
	live map[network.ID]int // and which of the row it is, 0: of none
	low  int                // of the row all before this one are taken
}

func (s *identities) init(space network.ID) { s.space, s.live = space, map[network.ID]int{space: 0} }

// take is an identity for o that no other port has until it is freed.
func (s *identities) take(o network.PortOptions) (network.ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := o.InterfaceID; id != (network.ID{}) {
		if !s.claim(id, 0) {
			return network.ID{}, fmt.Errorf("interface %s: %w", network.IDText(id), network.ErrIDInUse)
		}
		return id, nil
	}
	if o.ID == "" {
		for {
			s.low++
			if id := network.DeriveID(s.space, fmt.Sprintf("slot %d", s.low)); s.claim(id, s.low) {
				return id, nil
			}
		}
	}
	for name, i := o.ID, 2; ; name, i = fmt.Sprintf("%s #%d", o.ID, i), i+1 {
		if id := network.DeriveID(s.space, name); s.claim(id, 0) {
			return id, nil
		}
	}
}

// claim notes id unless it is taken. The caller holds mu.
func (s *identities) claim(id network.ID, slot int) bool {
	_, taken := s.live[id]
	if !taken {
		s.live[id] = slot
	}
	return !taken
}

// free gives an identity back.
func (s *identities) free(id network.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot := s.live[id]; slot > 0 {
		s.low = min(s.low, slot-1)
	}
	delete(s.live, id)
}
