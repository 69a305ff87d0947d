// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ifid"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// TestNothingIsLostByMoving: a client that sends all the time loses nothing when it gets an interface of its own.
func TestNothingIsLostByMoving(t *testing.T) {
	f := newFake()
	r := newRig(t, f, onNetwork())
	defer r.end()
	c := r.attach(1)
	down := uint64(0)
	for round := range 300 {
		f.mu.Lock()
		f.limit = 3
		f.mu.Unlock()
		filler := r.attach(2)
		a := r.attach(3)
		require.Equal(t, ifid.MAC(a.Port.(*port).id), a.Info().MAC)
		var stop atomic.Bool
		var sent int
		var wg sync.WaitGroup
		wg.Go(func() {
			for !stop.Load() {
				a.say(a.to(c.mac, strconv.Itoa(round)+" "+strconv.Itoa(sent)))
				sent++
				if sent%64 == 0 {
					runtime.Gosched()
				}
			}
		})
		promoted := r.Status().Promoted
		require.NoError(t, filler.Close())
		r.until("promoted", func() bool { return r.Status().Promoted > promoted })
		stop.Store(true)
		wg.Wait()
		down += a.Stats().Drops[vnet.DropDown]
		require.NoError(t, a.Close())
	}
	assert.Zero(t, down)
}
