// SPDX-License-Identifier: Apache-2.0

package network

import (
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"fmt"
	"net"
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
