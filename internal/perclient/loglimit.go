// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"sync"
	"time"
)

const (
	// logBurst and logRate are how many connections are logged at INFO, at once and a second: each makes three or four
	// lines, and a client that connects in a loop made 3 MB of them a second.
	logBurst = 200
	logRate  = 20

	// mutedEvery is how often the number of connections that were not logged is.
	mutedEvery = 10 * time.Second
)

// A logBudget decides which connections are logged at INFO.
type logBudget struct {
	mu     sync.Mutex
	tokens float64
	last   time.Time // when tokens was right
	muted  int       // connections since told
	told   time.Time
}

// take reports whether a connection at time now is to be logged, and how many were not since that was last told; 0 when there
// is nothing to tell yet.
func (b *logBudget) take(now time.Time) (ok bool, muted int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(logBurst, b.tokens+now.Sub(b.last).Seconds()*logRate)
	b.last = now
	if b.tokens >= 1 {
		b.tokens--
		ok = true
	} else {
		b.muted++
	}
	if b.muted > 0 && now.Sub(b.told) >= mutedEvery {
		muted, b.muted, b.told = b.muted, 0, now
	}
	return ok, muted
}
