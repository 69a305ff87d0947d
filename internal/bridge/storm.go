// SPDX-License-Identifier: Apache-2.0

package bridge

import "time"

// A budget is a token bucket of frames. It is used by one goroutine.
type budget struct {
	rate  int64 // frames a second
	burst int64 // frames

	tokens int64 // in frames times a second, so that a rate below one frame a nanosecond stays exact
	last   time.Duration
}

func newBudget(rate, burst int) budget {
	return budget{rate: int64(rate), burst: int64(burst), tokens: int64(burst) * int64(time.Second)}
}

// take asks for n frames at time now and returns how many are granted.
func (b *budget) take(n int, now time.Duration) int {
	full := b.burst * int64(time.Second)
	// Longer than it takes to fill the bucket does not count; it also keeps the product below from overflowing.
	passed := min(now-b.last, time.Duration(full/b.rate)+1)
	b.last = now
	if passed > 0 {
		b.tokens = min(full, b.tokens+int64(passed)*b.rate)
	}
	granted := min(int64(n), b.tokens/int64(time.Second))
	b.tokens -= granted * int64(time.Second)
	return int(granted)
}
