// SPDX-License-Identifier: Apache-2.0

package codesign

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	files := programs(t)
	files["small"] = small()
	for file, program := range files {
		for kind, o := range options(t) {
			t.Run(file+" "+kind, func(t *testing.T) {
				signed, err := Sign(program, o)
				require.NoError(t, err)
				s, err := Read(signed)
				require.NoError(t, err)
				assert.Equal(t, identifier, s.Identifier)
				assert.True(t, s.AdHoc)
				assert.Equal(t, string(o.Entitlements), string(s.Entitlements))
				assert.Empty(t, s.Damaged)

				signed[len(program)/2] ^= 1
				if s, err = Read(signed); err == nil { // else it hit what the file consists of
					assert.NotEmpty(t, s.Damaged)
				}
			})
		}
	}
}

// TestReadLinkers reads a signature that is not ours: Go's linker signs programs for Apple's processors.
func TestReadLinkers(t *testing.T) {
	read := 0
	for file, program := range programs(t) {
		if !strings.Contains(file, "arm64") {
			continue
		}
		read++
		s, err := Read(program)
		require.NoError(t, err, file)
		assert.Equal(t, "a.out", s.Identifier, file)
		assert.True(t, s.AdHoc)
		assert.Empty(t, s.Entitlements)
		assert.Empty(t, s.Damaged)
	}
	assert.NotZero(t, read)
}

// TestReadDamaged: whatever is wrong with a file, it is an error or a mark, and no panic. What counts is found.
func TestReadDamaged(t *testing.T) {
	signed, err := Sign(small(), options(t)["entitlements"])
	require.NoError(t, err)
	for i := range signed {
		for _, bits := range []byte{0x01, 0x80, 0xff} {
			signed[i] ^= bits
			_, _ = Read(signed)
			signed[i] ^= bits
		}
		_, _ = Read(signed[:i])
	}
	for name, b := range map[string][]byte{"empty": nil, "text": []byte("#!/bin/sh\n"), "not signed": small()} {
		_, err := Read(b)
		assert.Error(t, err, name)
	}
}

func FuzzRead(f *testing.F) {
	signed, err := Sign(small(), Options{Identifier: identifier})
	require.NoError(f, err)
	f.Add(signed)
	f.Fuzz(func(_ *testing.T, program []byte) { _, _ = Read(program) })
}
