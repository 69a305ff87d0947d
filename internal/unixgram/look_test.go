// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLook: a look-up that hangs holds nobody up for long, and what it finds in the end is given back.
func TestLook(t *testing.T) {
	var l looker
	v, err := look(&l, func() int { return 7 }, nil)
	require.NoError(t, err)
	assert.Equal(t, 7, v)
	assert.False(t, l.resting(time.Now()))

	answer, undone := make(chan struct{}), make(chan int, 1)
	_, err = look(&l, func() int { <-answer; return 8 }, func(v int) { undone <- v })
	require.ErrorIs(t, err, errSlow)
	l.busy.Store(maxLooks)
	quick := false
	for tries := 0; !quick && tries < 20; tries++ { // on a busy machine
		began := time.Now()
		_, err = look(&l, func() int { return 9 }, nil)
		require.ErrorIs(t, err, errSlow, "too many hang")
		quick = time.Since(began) < lookTime
	}
	assert.True(t, quick, "nobody waits for it")
	l.busy.Store(1)
	close(answer)
	assert.Equal(t, 8, <-undone)
	require.Eventually(t, func() bool { return l.busy.Load() == 0 }, patience, time.Millisecond)
	assert.True(t, l.resting(time.Now()), "new clients wait for a while")
	assert.False(t, l.resting(time.Now().Add(time.Minute)))
}
