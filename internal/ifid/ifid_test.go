// SPDX-License-Identifier: Apache-2.0

package ifid

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestText(t *testing.T) {
	const text = "8F1CE6E0-3C2B-4C38-9D0D-1A6F5C0B7E11"
	id := ID{0x8f, 0x1c, 0xe6, 0xe0, 0x3c, 0x2b, 0x4c, 0x38, 0x9d, 0x0d, 0x1a, 0x6f, 0x5c, 0x0b, 0x7e, 0x11}
	assert.Equal(t, text, String(id))
	assert.Empty(t, String(ID{}))
}

func TestIdentities(t *testing.T) {
	a, b := New(), New()
	assert.NotEqual(t, a, b)
	assert.NotEqual(t, Derive(a, "x"), Derive(a, "y"))
	assert.NotEqual(t, Derive(a, "x"), Derive(b, "x"))
	dns := ID{0x6b, 0xa7, 0xb8, 0x10, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}
	assert.Equal(t, "2ED6657D-E927-568B-95E1-2665A8AEA6A2", String(Derive(dns, "www.example.com")), "RFC 9562, A.4")
	assert.Equal(t, "5a:94:76:88:f9:d6", MAC(dns).String(), "the same in every version")
	assert.NotEqual(t, MAC(a), MAC(b))
	assert.Equal(t, byte(2), MAC(a)[0]&3, "locally administered, individual")
}
