// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestMemoryIsGivenBackAfterManyClientsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var freed int64
		f := freer{free: func() { atomic.AddInt64(&freed, 1) }}
		leave := func(n int) {
			for range n {
				f.sessionEnded()
			}
		}
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		leave(freeAfter - 1)
		pass(time.Minute)
		assert.Zero(t, atomic.LoadInt64(&freed), "a few are not worth a garbage collection")
		leave(1)
		pass(freeDelay - 1)
		assert.Zero(t, atomic.LoadInt64(&freed))
		pass(1)
		assert.EqualValues(t, 1, atomic.LoadInt64(&freed))
		leave(10 * freeAfter)
		pass(freeEvery - 1)
		assert.EqualValues(t, 1, atomic.LoadInt64(&freed), "not too often")
		pass(1)
		assert.EqualValues(t, 2, atomic.LoadInt64(&freed))
		leave(freeAfter)
		f.stop()
		leave(freeAfter)
		pass(time.Minute)
		assert.EqualValues(t, 2, atomic.LoadInt64(&freed))
	})
}
