// SPDX-License-Identifier: Apache-2.0

package link

import (
	"sync/atomic"
	"time"
)

// clockBase is what progress counts from: a monotonic clock.
var clockBase = time.Now()

// A progress notes when a client that is behind last took something. It costs a look at the clock where the queue begins to
// fill and at each write of the drainer, none for what is written at once.
type progress struct{ last atomic.Int64 } // since clockBase

// made notes that the client took something, or that from now on something waits for it.
func (p *progress) made() { p.last.Store(int64(time.Since(clockBase))) }

// stalled is for how long it took nothing, given whether something waits.
func (p *progress) stalled(waits bool) time.Duration {
	if !waits {
		return 0
	}
	return max(0, time.Since(clockBase)-time.Duration(p.last.Load()))
}
