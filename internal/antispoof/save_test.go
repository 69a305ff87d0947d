// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRestored: of those who did not come along nothing is kept, of the others everything.
func TestRestored(t *testing.T) {
	old := newRig(t)
	require.True(t, old.client(t, "").talks(macA, ipA))
	require.True(t, old.client(t, "").talks(macB, ipB))
	r := newRig(t)
	require.NoError(t, r.Restore(old.Save()))
	r.lastID = 100
	early := r.client(t, "")
	assert.False(t, early.sends(says(macA, ipA)))
	early.Close()
	r.Restored([]uint64{2})
	assert.True(t, r.client(t, "").talks(macA, ipA), "it is back as a new client")
	assert.False(t, r.client(t, "").sends(says(macB, ipC)))
	b := &client{r.Guard(2, nil, r.logger), t}
	assert.True(t, b.talks(macB, ipB))
}
