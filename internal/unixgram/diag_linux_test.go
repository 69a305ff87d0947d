// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDiagnoser: what waits in a client's socket is found until the client has read it or has gone.
func TestDiagnoser(t *testing.T) {
	l := newLab(t, nil)
	a := l.connected("a")
	a.send(testFrame(60, 1))
	s := l.session(a.path)
	target, err := l.opts.Trust.Check(a.path)
	require.NoError(t, err)
	defer target.Close()
	d := diagnoser{shared: l.shared.fd}
	defer d.close()
	var sock diagSocket
	require.Eventually(t, func() bool { return d.empty(&sock, target) }, patience, time.Millisecond, "it is found")
	for _, n := range []int{14, 60000} {
		s.link.Deliver(batchOf(testFrame(n, 1)))
		assert.False(t, d.empty(&sock, target), "%d bytes wait", n)
		assert.Len(t, a.recv(), n)
		assert.True(t, d.empty(&sock, target), "%d bytes are read", n)
	}
	require.NoError(t, a.Close())
	assert.False(t, d.empty(&sock, target), "gone")
	assert.False(t, d.empty(new(diagSocket), target), "and not found")
}

// FuzzAnswers: the kernel is believed, but not with indexes.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{8, 0, 1, 0, 1, 2, 3, 4, 12, 0, 4, 0, 5, 0, 0, 0, 6, 0, 0, 0})
	f.Add([]byte{255, 255, 4, 0})
	f.Fuzz(func(t *testing.T, attrs []byte) {
		for _, kind := range []uint16{attrVFS, attrQueue} {
			require.LessOrEqual(t, len(attr(attrs, kind)), len(attrs))
		}
	})
}
