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

// IDs hands out identities of interfaces: a client that asks for one has it, one that says who it is has the same one each time,
// and of the others each has the first free one of a row. Init makes the zero value usable.
type IDs struct {
	space ID

	mu   sync.Mutex
	live map[ID]slot
	rows map[string]row
}

// A row is the identities of one name: how many there are, and the first number that may be free.
type row struct{ live, from int }

// A slot is what an identity follows from; none for one that was asked for.
type slot struct {
	name string
	n    int
}

// Init readies s. The identities follow from space, which is never handed out.
func (s *IDs) Init(space ID) { s.space, s.live, s.rows = space, map[ID]slot{}, map[string]row{} }

// Take is an identity for o that is no other's until it is freed. The error is ErrIDInUse.
func (s *IDs) Take(o PortOptions) (ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := o.InterfaceID; id != (ID{}) {
		if !s.claim(id, slot{}) {
			return ID{}, fmt.Errorf("interface %s: %w", IDText(id), ErrIDInUse)
		}
		return id, nil
	}
	r := s.rows[o.ID]
	for n := max(r.from, 1); ; n++ {
		text := fmt.Sprintf("%s #%d", o.ID, n)
		if o.ID == "" {
			text = fmt.Sprintf("slot %d", n)
		} else if n == 1 {
			text = o.ID
		}
		if id := DeriveID(s.space, text); s.claim(id, slot{o.ID, n}) {
			s.rows[o.ID] = row{r.live + 1, n + 1}
			return id, nil
		}
	}
}

// claim notes id unless it is taken. The caller holds mu.
func (s *IDs) claim(id ID, of slot) bool {
	if _, taken := s.live[id]; taken || id == s.space {
		return false
	}
	s.live[id] = of
	return true
}

// Free gives an identity back.
func (s *IDs) Free(id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.live[id]
	delete(s.live, id)
	if r := s.rows[of.name]; of.n > 0 && r.live > 1 {
		s.rows[of.name] = row{r.live - 1, min(r.from, of.n)}
	} else if of.n > 0 {
		delete(s.rows, of.name)
	}
}
