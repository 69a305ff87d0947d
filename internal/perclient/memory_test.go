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
		var freed atomic.Int64
		s := NewServer(Options{})
		s.free = func() { freed.Add(1) }
		leave := func(n int) {
			for range n {
				s.remove(&Session{}, Info{})
			}
		}
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		leave(freeAfter - 1)
		pass(time.Minute)
		assert.Zero(t, freed.Load(), "a few are not worth a garbage collection")
		leave(1)
		pass(freeDelay - 1)
		assert.Zero(t, freed.Load())
		pass(1)
		assert.EqualValues(t, 1, freed.Load())
		leave(freeAfter)
		s.Stop()
		pass(time.Minute)
		assert.EqualValues(t, 1, freed.Load(), "that ends with the process")
	})
}
