// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"crypto/rand"
	"crypto/sha1"
)

// newUUID is a random UUID, version 4 of RFC 9562.
func newUUID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // it never fails
	return versioned(id, 4)
}

// derivedUUID is the UUID of name within space, version 5 of RFC 9562: always the same for the same two.
func derivedUUID(space [16]byte, name string) (id [16]byte) {
	h := sha1.New()
	h.Write(space[:])
	h.Write([]byte(name))
	copy(id[:], h.Sum(nil))
	return versioned(id, 5)
}

func versioned(id [16]byte, version byte) [16]byte {
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80
	return id
}
