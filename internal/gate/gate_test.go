// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestGate(t *testing.T) {
	var g Gate
	g.Init()
	assert.True(t, g.Enter())
	assert.True(t, g.Enter())
	assert.False(t, g.IsShut())
	empty := g.Shut()
	assert.True(t, g.IsShut())
	assert.False(t, g.Enter(), "it is shut")
	assert.False(t, isClosed(empty))
	g.Leave()
	assert.False(t, isClosed(empty), "one is inside")
	g.Leave()
	assert.True(t, isClosed(empty))
	assert.False(t, g.Enter())
	assert.True(t, isClosed(g.Shut()), "again")

	var unused Gate
	unused.Init()
	assert.True(t, isClosed(unused.Shut()))
}

// TestNobodyInsideAfterShut has many come and go while the gate is shut by several.
func TestNobodyInsideAfterShut(t *testing.T) {
	for range 200 {
		var g Gate
		g.Init()
		var inside, after atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for g.Enter() {
					inside.Add(1)
					inside.Add(-1)
					g.Leave()
				}
			})
		}
		for range 2 {
			all.Go(func() {
				<-g.Shut()
				after.Add(inside.Load())
			})
		}
		all.Wait()
		assert.Zero(t, after.Load())
	}
}
