// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLogBudget(t *testing.T) {
	var b logBudget
	now := time.Now()
	logged, told := 0, 0
	connect := func(n int) {
		for range n {
			ok, muted := b.take(now)
			if ok {
				logged++
			}
			told += muted
		}
	}
	connect(1000)
	assert.Equal(t, logBurst, logged)
	now = now.Add(time.Second)
	connect(1000)
	assert.Equal(t, logBurst+logRate, logged)
	assert.Equal(t, 1, told, "the first one at once, further ones not too often")
	now = now.Add(mutedEvery)
	connect(1)
	assert.Equal(t, 2000-logBurst-logRate, told, "none is forgotten")
}
