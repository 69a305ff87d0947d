// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"context"
	"sync"
	"time"
)

// gatherTime is how long a client whose port has started waits for the others of a gathering, in steps of gatherStep. A step counts
// as one however long it took: while the process had no processor, none of the others could start either.
const (
	gatherTime = 500 * time.Millisecond
	gatherStep = 10 * time.Millisecond
)

// A gathering is the sessions whose ports start at the same time, after an upgrade or a failed one. None sends before all are
// there: its frames would be lost that are for those who are not. What is sent meanwhile waits as it does for a port.
type gathering struct {
	mu   sync.Mutex
	left int
	all  chan struct{} // closed when nobody is left
}

// newGathering expects n calls of arrived.
func newGathering(n int) *gathering { return &gathering{left: n, all: make(chan struct{})} }

// join expects one more. There must be somebody left.
func (g *gathering) join() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left++
}

// arrived tells that one is there, or will never be.
func (g *gathering) arrived() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left--; g.left == 0 {
		close(g.all)
	}
}

// wait waits for all, for a while.
func (g *gathering) wait(ctx context.Context) {
	t := time.NewTicker(gatherStep)
	defer t.Stop()
	for range gatherTime / gatherStep {
		select {
		case <-g.all:
			return
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// gathered is called by the keeper after each attempt to start the port, and at its end: it counts the session as there and,
// where the port has started, waits for the others. It does so once.
func (c *Session) gathered(ctx context.Context, started bool) {
	g := c.rejoin
	if g == nil {
		return
	}
	c.rejoin = nil
	g.arrived()
	if started {
		g.wait(ctx)
	}
}
