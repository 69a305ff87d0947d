// SPDX-License-Identifier: Apache-2.0

package network

import (
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"fmt"
	"net"
	"sync"
)

// An ID is the identity of an interface, a UUID as vmnet.framework uses it. The null UUID is no identity.
type ID = [16]byte

// NewID is a random UUID, version 4 of RFC 9562.
func NewID() (id ID) {
	_, _ = rand.Read(id[:]) // it never fails
	return versioned(id, 4)
}

// DeriveID is the UUID of name within space, version 5 of RFC 9562: always the same for the same two.
func DeriveID(space ID, name string) (id ID) {
	h := sha1.New()
	h.Write(space[:])
	h.Write([]byte(name))
	copy(id[:], h.Sum(nil))
	return versioned(id, 5)
}

func versioned(id ID, version byte) ID {
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80
	return id
}

// IDText is the text of a UUID in capital letters, as macOS writes it; empty for the null UUID.
func IDText(id ID) string {
	if id == (ID{}) {
		return ""
	}
	return fmt.Sprintf("%X-%X-%X-%X-%X", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// MACOf is a locally administered address that belongs to id: always the same, and another one for another id.
func MACOf(id ID) net.HardwareAddr {
	h := sha256.Sum256(append([]byte("socket_vmnet2 interface "), id[:]...))
	return net.HardwareAddr{0x5a, 0x94, h[0], h[1], h[2], h[3]}
}

// IDs hands out identities of interfaces: a client that asks for one has it, one that says what it is has the same one each time,
// and of the others each has the first free one of a row. Init makes the zero value usable.
type IDs struct {
	space ID

	mu   sync.Mutex
	live map[ID]int // and which of the row it is, 0: of none
	low  int        // of the row all up to this one are taken
}

// Init readies s. The identities follow from space, which is never handed out.
func (s *IDs) Init(space ID) { s.space, s.live = space, map[ID]int{space: 0} }

// Take is an identity for o that is no other's until it is freed. The error is ErrIDInUse.
func (s *IDs) Take(o PortOptions) (ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := o.InterfaceID; id != (ID{}) {
		if !s.claim(id, 0) {
			return ID{}, fmt.Errorf("interface %s: %w", IDText(id), ErrIDInUse)
		}
		return id, nil
	}
	for o.ID == "" {
		s.low++
		if id := DeriveID(s.space, fmt.Sprintf("slot %d", s.low)); s.claim(id, s.low) {
			return id, nil
		}
	}
	for name, i := o.ID, 2; ; name, i = fmt.Sprintf("%s #%d", o.ID, i), i+1 {
		if id := DeriveID(s.space, name); s.claim(id, 0) {
			return id, nil
		}
	}
}

// claim notes id unless it is taken. The caller holds mu.
func (s *IDs) claim(id ID, slot int) bool {
	_, taken := s.live[id]
	if !taken {
		s.live[id] = slot
	}
	return !taken
}

// Free gives an identity back.
func (s *IDs) Free(id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot := s.live[id]; slot > 0 {
		s.low = min(s.low, slot-1)
	}
	delete(s.live, id)
}
