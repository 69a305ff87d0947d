// SPDX-License-Identifier: Apache-2.0

package link

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stalls waits until stats tell of a client that has taken nothing for least.
func stalls(t *testing.T, stats func() Stats, least time.Duration) {
	t.Helper()
	require.Eventually(t, func() bool { return stats().Stalled >= least }, 20*time.Second, time.Millisecond)
}

// TestStreamStalls: a client that does not read is told from one that reads slowly, and from one that nothing is for.
func TestStreamStalls(t *testing.T) {
	daemon, client := pair(t)
	s, err := NewStream(daemon, StreamOptions{})
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	s.Deliver(numbered(0, 4, 1514))
	assert.Zero(t, s.Stats().Stalled, "it is all in the socket")
	begun := time.Now()
	for s.Stats().Queued == 0 {
		s.Deliver(numbered(0, 100, 1514))
	}
	stalls(t, s.Stats, 500*time.Millisecond) // longer than either end will have to wait for a processor
	stalled := s.Stats().Stalled
	assert.LessOrEqual(t, stalled, time.Since(begun))

	before := s.Stats().Stalled
	reads := func(until func(Stats) bool) {
		buf := make([]byte, 64<<10)
		require.Eventually(t, func() bool { // the last bytes may be read before they are no longer counted as queued
			_ = client.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			_, _ = client.Read(buf)
			return until(s.Stats())
		}, 20*time.Second, time.Millisecond)
	}
	reads(func(s Stats) bool { return s.Stalled < before }) // it reads a little: that is progress, though something waits
	reads(func(s Stats) bool { return s.Queued == 0 })
	assert.Zero(t, s.Stats().Stalled)
}

func TestOutboxStalls(t *testing.T) {
	for _, tt := range []struct {
		name     string
		patience int // on macOS the queue of a deaf client is dropped, and it is deaf all the same
	}{{"told of room", 0}, {"not told of room", 3}} {
		t.Run(tt.name, func(t *testing.T) {
			var open atomic.Bool
			p := &testPipe{
				room: func(want int) int {
					if open.Load() {
						return want
					}
					return 0
				},
				wait: func(<-chan struct{}) { time.Sleep(time.Millisecond) },
			}
			o, _ := newOutbox(t, p, 0)
			o.patience = tt.patience
			stats := o.Stats
			open.Store(true)
			o.Deliver(numbered(0, 10, 100))
			assert.Zero(t, stats().Stalled)
			open.Store(false)
			for range 4 { // the queue empties in between, where it is dropped
				o.Deliver(numbered(10, 10, 100))
				stalls(t, stats, stats().Stalled+20*time.Millisecond)
			}
			assert.GreaterOrEqual(t, stats().Stalled, 80*time.Millisecond)
			open.Store(true)
			o.Deliver(numbered(20, 1, 100))
			settled(t, o)
			assert.Zero(t, stats().Stalled)
		})
	}
}
