// SPDX-License-Identifier: Apache-2.0

// Package ifid makes identities of interfaces: UUIDs, as vmnet.framework identifies them by, and the MAC addresses that belong
// to them.
package ifid

import (
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"fmt"
	"net"
)

// An ID is a UUID. The null UUID is no identity.
type ID = [16]byte

// New is a random UUID, version 4 of RFC 9562.
func New() (id ID) {
	_, _ = rand.Read(id[:]) // it never fails
	return versioned(id, 4)
}

// Derive is the UUID of name within space, version 5 of RFC 9562: always the same for the same two.
func Derive(space ID, name string) (id ID) {
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

// String is the text of a UUID in capital letters, as macOS writes it; empty for the null UUID.
func String(id ID) string {
	if id == (ID{}) {
		return ""
	}
	return fmt.Sprintf("%X-%X-%X-%X-%X", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// MAC is a locally administered address that belongs to id: always the same, and another one for another id.
func MAC(id ID) net.HardwareAddr {
	h := sha256.Sum256(append([]byte("socket_vmnet2 interface "), id[:]...))
	return net.HardwareAddr{0x5a, 0x94, h[0], h[1], h[2], h[3]}
}
