// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestClose: a lab leaves no process and no file.
func TestClose(t *testing.T) {
	l := emptyLab(t)
	p, err := l.Start("sleeper", "sh", "-c", "trap '' TERM; sleep 100 & echo up; wait; sleep 100")
	require.NoError(t, err)
	_, err = p.Output().WaitFor(t.Context(), "up")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	assert.Equal(t, -1, p.ExitCode(), "ended by a signal")
	_, err = os.Stat(l.Dir)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// emptyLab is a Lab without guests.
func emptyLab(t *testing.T) *Lab {
	t.Helper()
	l, err := New(t.Context(), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}
