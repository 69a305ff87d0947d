// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNothingComesTwiceByMoving: a client that gets an interface of its own gets no broadcast twice, neither those of clients
// that share the anchor with it nor those of others, nor any of its own, and they are in order.
func TestNothingComesTwiceByMoving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which no frame is under way for longer than moveGap
		f := newFake()
		r := newRig(t, f, onNetwork())
		c := r.attach(1)
		for round := range 4 {
			f.mu.Lock()
			f.limit = 3
			f.mu.Unlock()
			filler := r.attach(2)
			a, sharer := r.attach(3), r.attach(4)
			a.say(a.to(broadcast, "hello")) // one that is silent until it moves may hear itself once
			r.until("all are there", func() bool {
				c.say(c.to(broadcast, "hello"))
				sharer.say(sharer.to(broadcast, "hello"))
				return a.hears("hello") && sharer.hears("hello") && c.hears("hello")
			})
			var sent [2]int
			var stop atomic.Bool
			var wg sync.WaitGroup
			for i, g := range []*guest{c, sharer} {
				wg.Go(func() {
					for !stop.Load() {
						g.say(g.to(broadcast, strconv.Itoa(i)+" "+strconv.Itoa(sent[i])))
						if sent[i]++; sent[i]%16 == 0 {
							time.Sleep(200 * time.Microsecond)
						}
					}
				})
			}
			wg.Go(func() {
				for !stop.Load() {
					a.say(a.to(broadcast, "mine"))
					time.Sleep(100 * time.Microsecond)
				}
			})
			promoted := r.Status().Promoted
			require.NoError(t, filler.Close())
			r.until("promoted", func() bool { return r.Status().Promoted > promoted })
			stop.Store(true)
			wg.Wait()
			r.until("the network of the new interface", func() bool {
				c.say(c.to(broadcast, "end"))
				return a.hears("end")
			})
			next := [2]int{-1, -1}
			for _, s := range a.heard() {
				require.NotEqual(t, "mine", s)
				var i, n int
				if k, _ := fmt.Sscan(s, &i, &n); k == 2 {
					require.Greater(t, n, next[i], "round %d, of %d", round, i)
					next[i] = n
				}
			}
			require.NoError(t, sharer.Close()) // first, or it would move too
			require.NoError(t, a.Close())
			r.until("room again", func() bool { return len(f.running()) == 2 })
		}
	})
}

// TestSharersAreSpared: what one client that shares the anchor sends to one that has an interface of its own reaches no other
// else, also when the anchor has never heard of it.
func TestSharersAreSpared(t *testing.T) {
	f := newFake()
	f.limit = 2
	r := newRig(t, f, onNetwork())
	own := r.attach(1)
	own.say(own.to(broadcast, "before any client shares"))
	a, b := r.attach(2), r.attach(3)
	require.Equal(t, 2, r.Status().Shared)
	a.say(a.to(broadcast, "a"))
	r.until("a broadcast", func() bool { return b.hears("a") && own.hears("a") })
	a.say(a.to(own.mac, "secret"), a.to(guestMAC(9), "to an unknown"))
	r.until("both", func() bool { return own.hears("secret") && b.hears("to an unknown") })
	assert.False(t, b.hears("secret"))
}

// TestManyAddressesBehindTheAnchor: however many addresses are behind the anchor, what a sharing client sends to one of them
// goes to no other client.
func TestManyAddressesBehindTheAnchor(t *testing.T) {
	f := newFake()
	f.limit = 3
	r := newRig(t, f, onNetwork())
	hostile, victim := r.attach(1), r.attach(2)
	a, b := r.attach(3), r.attach(4) // share
	mac := hostile.mac
	for i := range 3000 { // a bridge learns 256 behind a client
		hostile.mac = []byte{2, 0, 0, 1, byte(i >> 8), byte(i)}
		hostile.say(hostile.to(broadcast, strconv.Itoa(i)))
	}
	hostile.mac = mac
	r.until("the spray", func() bool { return b.hears("2999") })
	r.talk(victim, a)
	a.say(a.to(victim.mac, "secret"))
	r.until("it arrives", func() bool { return victim.hears("secret") })
	assert.False(t, b.hears("secret"), "the other sharing client heard it")
}
