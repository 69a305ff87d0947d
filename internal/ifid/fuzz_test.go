// SPDX-License-Identifier: Apache-2.0

package ifid

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse: what is taken for a UUID says the same again, and nothing else is taken for one.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"8F1CE6E0-3C2B-4C38-9D0D-1A6F5C0B7E11", "00000000-0000-0000-0000-000000000000", "", "-", "8f1ce6e03c2b4c389d0d1a6f5c0b7e11",
		"8F1CE6E0-3C2B-4C38-9D0D-1A6F5C0B7E1", "8F1CE6E0-3C2B-4C38-9D0D-1A6F5C0B7E1G", "8F1CE6E0-3C2B-4C38-9D0D-1A6F5C0B7E1\x00",
		"{F1CE6E0-3C2B-4C38-9D0D-1A6F5C0B7E1}", strings.Repeat("-", 36),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := Parse(s)
		if err != nil {
			require.Equal(t, ID{}, id)
			return
		}
		if id == (ID{}) {
			require.Empty(t, String(id))
			return
		}
		require.Equal(t, strings.ToUpper(s), String(id))
		require.Zero(t, MAC(id)[0]&1, "a group's address")
		require.NotZero(t, MAC(id)[0]&2, "not locally administered")
	})
}
