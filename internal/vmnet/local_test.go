// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"encoding/binary"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// locally are options with local switching.
func locally() Options { return with(onNetwork(), func(o *Options) { o.LocalSwitching = true }) }

// places are who has what behind it: two interfaces, or one and the anchor, or the anchor alone.
var placings = []struct {
	name  string
	limit int  // of interfaces
	late  bool // b is attached first, and gets the interface
}{
	{"own, own", 0, false},
	{"own, shared", 2, false},
	{"shared, own", 2, true},
	{"shared, shared", 1, false},
}

// pair attaches guests 1 and 2.
func (r *rig) pair(late bool) (a, b *guest) {
	if late {
		b = r.attach(2)
		return r.attach(1), b
	}
	a = r.attach(1)
	return a, r.attach(2)
}

// switched is how many of g's frames have taken the short way.
func (g *guest) switched() uint64 { return g.Port.(*port).local.switched.Load() }

// network is the fake's only one.
func (r *rig) network() *fakeNetwork {
	r.t.Helper()
	r.fake.mu.Lock()
	defer r.fake.mu.Unlock()
	require.Len(r.t, r.fake.networks, 1)
	for _, n := range r.fake.networks {
		return n
	}
	return nil
}

// written is how many packets vmnet has been given in all.
func (r *rig) written() (n int64) {
	r.fake.mu.Lock()
	defer r.fake.mu.Unlock()
	for _, i := range r.fake.every {
		n += i.packets.Load()
	}
	return n
}

// numbers are the payloads of a flow, as far as they came.
func (g *guest) numbers() (n []int) {
	for _, s := range g.heard() {
		if i, err := strconv.Atoi(s); err == nil {
			n = append(n, i)
		}
	}
	return n
}

// ascending checks that nothing came twice or out of order.
func ascending(t *testing.T, g *guest) (n []int) {
	t.Helper()
	assert.False(t, g.hears("a marker"))
	n = g.numbers()
	for i := 1; i < len(n); i++ {
		require.Less(t, n[i-1], n[i], "position %d of %v", i, n[max(0, i-5):min(len(n), i+5)])
	}
	return n
}

// TestLocalSwitching: unicast between clients does not reach vmnet, everything else does, and all comes once.
func TestLocalSwitching(t *testing.T) {
	for _, tt := range placings {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			f.limit = tt.limit
			r := newRig(t, f, locally())
			defer r.end()
			a, b := r.pair(tt.late)
			a.say(a.to(everybody, "to all"))
			r.until("broadcast", func() bool { return b.hears("to all") })
			b.say(b.to(a.mac, "back")) // at once: nobody has ever sent to a
			assert.Equal(t, []string{"back"}, a.heard())
			before := r.written()
			a.say(a.to(b.mac, "1"), a.to(b.mac, "2"), a.to(guestMAC(9), "else"), a.to(b.mac, "3"), a.to(a.mac, "self"))
			assert.Equal(t, []int{1, 2, 3}, b.numbers())
			assert.Equal(t, before+1, r.written(), "only what is for elsewhere")
			assert.Equal(t, uint64(3), a.switched())
			assert.Equal(t, uint64(1), a.Stats().Drops[vnet.DropHairpin])
			assert.Equal(t, 1, a.Stats().MACs)
			require.NoError(t, b.Close())
			a.say(a.to(b.mac, "gone"))
			assert.GreaterOrEqual(t, r.written(), before+2, "and it is announced if it moves to the interface of b")
		})
	}
}

// TestLocalSwitchingKeepsOrder: a flow begins before its receiver is known and goes on all the time while it is learned, with
// vmnet slow, silent from client to client, or with the marker lost.
func TestLocalSwitchingKeepsOrder(t *testing.T) {
	tests := []struct {
		name  string
		fault func(*fakeNetwork)
		lossy bool
	}{
		{"fast", func(*fakeNetwork) {}, false},
		{"slow", func(n *fakeNetwork) { n.delay = 5 * time.Millisecond }, false},
		{"slower", func(n *fakeNetwork) { n.delay = 100 * time.Millisecond }, false},
		{"no unicast", func(n *fakeNetwork) { n.noUnicast = true }, true},
	}
	for _, place := range placings {
		for _, tt := range tests {
			t.Run(place.name+", "+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFake()
					f.limit = place.limit
					r := newRig(t, f, locally())
					defer r.end()
					a, b := r.pair(place.late)
					a.say(a.to(everybody, "hello"))
					time.Sleep(time.Second)
					r.network().fault(tt.fault)
					sent := 0
					flow := func(frames int) {
						for range frames {
							a.say(a.to(b.mac, strconv.Itoa(sent)), a.to(b.mac, strconv.Itoa(sent+1)))
							sent += 2
							time.Sleep(100 * time.Microsecond)
						}
					}
					flow(200)
					b.say(b.to(everybody, "here I am"))
					flow(400)
					time.Sleep(2 * transit)
					flow(10)
					got := ascending(t, b)
					if tt.lossy && place.limit != 1 {
						assert.Len(t, got, sent-400, "all but what vmnet does not carry")
					} else {
						assert.Len(t, got, sent, "all of them")
					}
					assert.GreaterOrEqual(t, a.switched(), uint64(20))
					assert.Zero(t, a.Stats().Drops[vnet.DropExhausted])
				})
			})
		}
	}
}

// TestLocalSwitchingKnowsSoMany: addresses of one client beyond the limit take vmnet's way, until others are old.
func TestLocalSwitchingKnowsSoMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newFake(), locally())
		defer r.end()
		a, b := r.pair(false)
		from := func(i int) []byte { return binary.BigEndian.AppendUint32([]byte{6, 0}, uint32(i)) }
		for i := range 2 * maxPlaces {
			b.say(slices.Concat(everybody, from(i), testType, []byte("x")))
		}
		assert.Equal(t, maxPlaces, b.Stats().MACs)
		time.Sleep(time.Second)
		a.say(a.to(from(0), "known"), a.to(from(maxPlaces), "unknown"))
		synctest.Wait()
		assert.Equal(t, uint64(1), a.switched())
		assert.True(t, b.hears("known") && b.hears("unknown"))
		time.Sleep((placeAge + 2) * time.Second)
		b.say(slices.Concat(everybody, from(maxPlaces), testType, []byte("x")))
		assert.Equal(t, 1, b.Stats().MACs, "the old ones have made room")
		require.NoError(t, b.Close())
		assert.Nil(t, r.local.find(binary.BigEndian.Uint64(append(from(maxPlaces), 0, 0))>>16))
	})
}

// TestLocalSwitchingFollowsMoves: an address that is seen elsewhere is not behind its client any more, and comes back with
// its next frame.
func TestLocalSwitchingFollowsMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newFake(), locally())
		defer r.end()
		a, b := r.pair(false)
		c := r.attach(3)
		a.say(a.to(everybody, "a"))
		b.say(b.to(everybody, "b"))
		time.Sleep(time.Minute)
		a.say(a.to(b.mac, "one"))
		require.True(t, b.hears("one"))

		c.say(slices.Concat(everybody, b.mac, testType, []byte("from c"))) // to another client
		synctest.Wait()                                                    // or b would take it for a sign that its address is elsewhere
		a.say(a.to(b.mac, "two"))
		require.True(t, c.hears("two"))
		assert.False(t, b.hears("two"))
		b.say(b.to(a.mac, "three")) // and back
		a.say(a.to(b.mac, "four"))
		require.True(t, b.hears("four"))
		synctest.Wait()
		assert.False(t, c.hears("four"))
	})
}

// crossings is how many are under way.
func crossings(r *rig) int {
	r.local.mu.Lock()
	defer r.local.mu.Unlock()
	return len(r.local.markers)
}

// TestLocalSwitchingEnds: a client that leaves while its frames, or those for it, are held.
func TestLocalSwitchingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newFake(), locally())
		defer r.end()
		r.network().fault(func(n *fakeNetwork) { n.delay = 100 * time.Millisecond })
		for _, leaver := range []int{0, 1} {
			a, b := r.pair(false)
			a.say(a.to(b.mac, "0"))
			b.say(b.to(everybody, "here"))
			a.say(a.to(b.mac, "1"))
			assert.Equal(t, 1, crossings(r))
			require.NoError(t, []*guest{a, b}[leaver].Close())
			if leaver == 1 {
				a.say(a.to(b.mac, "2"))
			}
			time.Sleep(2 * transit)
			assert.Zero(t, crossings(r))
			assert.NotContains(t, b.numbers(), 1)
			assert.Equal(t, uint64(1), a.Stats().Drops[vnet.DropDown])
			require.NoError(t, []*guest{b, a}[leaver].Close())
		}
		assert.Empty(t, r.local.markers)
	})
}
