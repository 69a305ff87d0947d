// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// long is a payload that makes a frame of n bytes, and tells i.
func long(i, n int) string { return fmt.Sprintf("%05d", i) + strings.Repeat("x", n-frame.MinLen-5) }

// burst is count broadcasts of n bytes, and their payloads.
func (g *guest) burst(count, n int) (frames [][]byte, payloads []string) {
	for i := range count {
		payloads = append(payloads, long(i, n))
		frames = append(frames, g.to(broadcast, payloads[i]))
	}
	return frames, payloads
}

// TestOneWrite: what the limits allow leaves in one call, straight from the client's buffer, and comes in few reads.
func TestOneWrite(t *testing.T) {
	tests := []struct {
		name      string
		frames, n int
		change    func(*api.Params)
		writes    int64
	}{
		{"one", 1, 60, nil, 1},
		{"as many as are reported", 256, 60, nil, 1},
		{"one more", 257, 60, nil, 2},
		{"nothing reported", 201, 60, func(p *api.Params) { p.WriteMax, p.ReadMax = 0, 0 }, 2},
		{"few reported", 100, 60, func(p *api.Params) { p.WriteMax, p.ReadMax = 16, 16 }, 7},
		{"bytes", 174, 1514, nil, 2}, // 173 × 1514 = 261,922
		{"just as many bytes", 173, 1514, nil, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			f.tune = tt.change
			r := newRig(t, f, onNetwork())
			a, b := r.attach(1), r.attach(2)
			frames, want := a.burst(tt.frames, tt.n)
			a.say(frames...)
			r.until("all of them", func() bool { return len(b.heard()) >= len(want) })
			assert.Equal(t, want, b.heard())
			assert.Equal(t, tt.writes, r.own(a).writes.Load())
			assert.Empty(t, a.Stats().Drops)
		})
	}
}

// TestBadFrames: of a batch in which some frames are refused, exactly those are lost.
func TestBadFrames(t *testing.T) {
	for _, st := range []api.Status{api.InvalidArgument, api.PacketTooBig, api.TooManyPackets} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, shared %t", st.Name(), shared), func(t *testing.T) {
				f := newFake()
				o := onNetwork()
				if shared {
					o.Interfaces = interfacesOne
				}
				r := newRig(t, f, o)
				a := r.attach(1)
				i := r.anchorOf()
				if !shared {
					i = r.own(a)
				}
				var taken []string
				i.fault(func(i *fakeInterface) {
					i.onWrite = func(frames [][]byte) api.Status {
						for _, f := range frames {
							if strings.Contains(string(f), "bad") {
								return st
							}
						}
						for _, f := range frames {
							taken = append(taken, string(f[frame.MinLen:]))
						}
						return api.Success
					}
				})
				frames, want := a.burst(200, 60)
				for _, k := range []int{199, 78, 77, 0} {
					frames[k], want = a.to(broadcast, "bad"), slices.Delete(want, k, k+1)
				}
				a.say(slices.Insert(frames, 100, a.to(broadcast, long(0, 1515)))...) // one more, which is never offered
				assert.Equal(t, want, taken, "in order")
				assert.Equal(t, map[network.DropReason]uint64{network.DropRefused: 4, network.DropOversize: 1}, a.Stats().Drops)
				assert.Less(t, i.writes.Load(), int64(80))
				assert.Zero(t, r.Status().Restarts)
			})
		}
	}
}

// TestExhausted: what the kernel has no buffers for is dropped and counted, after a bounded number of attempts.
func TestExhausted(t *testing.T) {
	tests := []struct {
		name  string
		taken func(n int) bool // does a write of n packets succeed
		want  uint64           // frames dropped of 200
	}{
		{"for everything", func(int) bool { return false }, 200},
		{"for more than half", func(n int) bool { return n <= 100 }, 0},
		{"for more than 50", func(n int) bool { return n <= 50 }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, newFake(), onNetwork())
			a := r.attach(1)
			i := r.own(a)
			i.fault(func(i *fakeInterface) {
				i.onWrite = func(frames [][]byte) api.Status {
					if tt.taken(len(frames)) {
						return api.Success
					}
					return api.BufferExhausted
				}
			})
			frames, _ := a.burst(200, 60)
			a.say(frames...)
			assert.Equal(t, tt.want, a.Stats().Drops[network.DropExhausted])
			assert.Equal(t, tt.want, r.Status().Exhausted)
			assert.LessOrEqual(t, i.writes.Load(), int64(1+2*maxRetries))
			assert.Equal(t, int64(200)-int64(tt.want), i.packets.Load())
		})
	}
}

// TestStatusOfCalls: no status of a read or of a write costs more than the frames of that write, but for one of an interface
// that is gone. Packets that wait come even if no event tells of them.
func TestStatusOfCalls(t *testing.T) {
	for _, write := range []bool{false, true} {
		for st := api.Failure; st <= api.NotAuthorized+1; st++ {
			t.Run(fmt.Sprintf("write %t, %s", write, st.Name()), func(t *testing.T) {
				r := newRig(t, newFake(), onNetwork())
				a, b := r.attach(1), r.attach(2)
				var done atomic.Bool
				once := func() api.Status {
					if done.CompareAndSwap(false, true) {
						return st
					}
					return api.Success
				}
				hit, lost := b, uint64(0)
				if write {
					hit, lost = a, 1
				}
				first := r.own(hit)
				first.fault(func(i *fakeInterface) {
					if i.onRead = once; write {
						i.onRead, i.onWrite = nil, func([][]byte) api.Status { return once() }
					}
				})
				a.say(a.to(b.mac, "one"))
				r.until("the call", done.Load)
				if judge(st) == verdictDead {
					r.replaced(hit, first)
				} else {
					assert.Zero(t, r.Status().Restarts)
					assert.Same(t, first, r.own(hit))
					r.until("the packet", func() bool { return write || b.hears("one") })
				}
				for _, n := range a.Stats().Drops {
					lost -= n
				}
				assert.Zero(t, lost)
				r.talk(a, b)
			})
		}
	}
}

// TestThreeFailures: a general failure may pass, three within a second may not, whether of reads or of writes.
func TestThreeFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newFake(), onNetwork())
		a := r.attach(1)
		r.own(a).fault(func(i *fakeInterface) {
			i.onWrite = func([][]byte) api.Status { return api.Failure }
		})
		for range 10 {
			a.say(a.to(broadcast, "x"))
			time.Sleep(501 * time.Millisecond)
		}
		assert.Zero(t, r.Status().Restarts, "never more than two in a second")
		assert.EqualValues(t, 10, a.Stats().Drops[network.DropRefused])
		time.Sleep(time.Second)
		for range 3 {
			a.say(a.to(broadcast, "x"))
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.EqualValues(t, 1, r.Status().Restarts)
		assert.EqualValues(t, 12, a.Stats().Drops[network.DropRefused])
		assert.EqualValues(t, 1, a.Stats().Drops[network.DropDown], "the one that ended it")
	})
}

// TestDyingInterface: an interface that keeps dying is started again at once, then after 1, 2, 4 seconds; meanwhile its
// client shares the anchor and stays reachable.
func TestDyingInterface(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newFake(), onNetwork())
		a, b := r.attach(1), r.attach(2)
		kill := func() {
			r.own(b).fault(func(i *fakeInterface) { i.onRead = func() api.Status { return api.InvalidAccess } })
			a.say(a.to(broadcast, "die"))
			synctest.Wait()
		}
		kill()
		assert.Equal(t, 2, r.Status().Own, "started again at once")
		for _, pause := range []time.Duration{1, 2, 4, 8} {
			kill()
			assert.Equal(t, 1, r.Status().Own)
			assert.Equal(t, 1, r.Status().Shared)
			r.talk(a, b)
			time.Sleep(pause*time.Second - 100*time.Millisecond)
			synctest.Wait()
			assert.Equal(t, 1, r.Status().Own, "not yet, %d", pause)
			time.Sleep(100*time.Millisecond + moveGap)
			synctest.Wait()
			assert.Equal(t, 2, r.Status().Own, "now, %d", pause)
			assert.Zero(t, r.Status().Shared)
			r.talk(a, b)
		}
		time.Sleep(2 * settled)
		kill()
		assert.Equal(t, 2, r.Status().Own, "at once again after it had run for long")
		assert.Zero(t, r.log.count("MAC address moved"), "no client took it from another")
	})
}

// TestRestartFails: the client shares the anchor until an interface starts again.
func TestRestartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newFake(), onNetwork())
		a, b := r.attach(1), r.attach(2)
		r.fake.setStart(func(context.Context, bool) error { return failure() })
		r.own(b).fault(func(i *fakeInterface) { i.onRead = func() api.Status { return api.SetupIncomplete } })
		a.say(a.to(broadcast, "die"))
		synctest.Wait()
		assert.Equal(t, 1, r.Status().Shared)
		r.talk(a, b)
		time.Sleep(time.Hour)
		r.talk(a, b)
		assert.Less(t, r.Status().StartFailures, uint64(30), "in an hour")
		r.fake.setStart(nil)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 2, r.Status().Own)
		assert.Zero(t, r.Status().Shared)
		assert.Zero(t, r.anchorOf().calls.Load())
		r.talk(a, b)
	})
}

// TestAnchorDies: the clients that share it are served again when it is back.
func TestAnchorDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newFake(), with(onNetwork(), func(o *Options) { o.UseAPI, o.Interfaces, o.Forwards = apiInterface, interfacesOne, someForward() }))
		a, b := r.attach(1), r.attach(2)
		first := r.anchorOf()
		r.fake.setStart(func(context.Context, bool) error { return failure() })
		first.fault(func(i *fakeInterface) { i.onWrite = func([][]byte) api.Status { return api.InvalidAccess } })
		a.say(a.to(broadcast, "die"))
		time.Sleep(10 * time.Second)
		a.say(a.to(broadcast, "no host out there"))
		assert.EqualValues(t, 2, a.Stats().Drops[network.DropDown])
		assert.True(t, b.hears("no host out there"), "those that share it still reach each other")
		r.fake.setStart(nil)
		r.fake.mu.Lock()
		r.fake.tune = func(p *api.Params) { p.WriteMax = 16 } // by a macOS that thinks otherwise now
		r.fake.mu.Unlock()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		second := r.anchorOf()
		require.NotSame(t, first, second)
		assert.Equal(t, someForward(), second.forwards, "made again")
		assert.Equal(t, first.net.f.configs[0], first.net.f.configs[len(r.fake.configs)-1], "with the same identity")
		a.say(a.to(broadcast, "hello"))
		assert.EqualValues(t, 1, second.packets.Load())
		frames, _ := a.burst(40, 60)
		a.say(frames...)
		assert.EqualValues(t, 41, second.packets.Load())
		second.put(a.to(b.mac, "from outside"))
		synctest.Wait()
		assert.True(t, b.hears("from outside"))
	})
}

// TestMoreClientsThanInterfaces: no client is refused. When an interface becomes free, the client that has shared the anchor
// longest gets it.
func TestMoreClientsThanInterfaces(t *testing.T) {
	f := newFake()
	f.limit = 4 // the anchor and three clients
	r := newRig(t, f, onNetwork())
	var g []*guest
	for i := range byte(6) {
		g = append(g, r.attach(i))
	}
	assert.Equal(t, 3, r.Status().Own)
	assert.Equal(t, 3, r.Status().Shared)
	for i := range g {
		for _, b := range g[i+1:] {
			r.talk(g[i], b)
		}
	}
	require.NoError(t, g[1].Close())
	r.until("the move", func() bool { return r.Status().Promoted == 1 && r.Status().Own == 3 })
	assert.Equal(t, 3, r.Status().Own)
	assert.Equal(t, 2, r.Status().Shared)
	assert.NotNil(t, r.own(g[3]), "the one that had shared longest")
	assert.NotEmpty(t, g[3].Info().MAC)
	assert.Equal(t, network.MACOf(g[4].Port.(*port).id), g[4].Info().MAC)
	for _, b := range g[2:] {
		r.talk(g[0], b)
	}
	require.NoError(t, g[4].Close())
	require.NoError(t, g[5].Close())
	r.until("no client shares", func() bool { return r.Status().Shared == 0 })
	anchor := r.anchorOf()
	reads := anchor.reads.Load()
	for range 20 {
		r.talk(g[0], g[3])
	}
	assert.Equal(t, reads, anchor.reads.Load(), "the anchor is not read")
	assert.False(t, anchor.notifies, "and it has no events")
}

// TestTransientTrouble: when it was not for lack of interfaces, all that share move on.
func TestTransientTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newFake(), onNetwork())
		r.fake.setStart(func(context.Context, bool) error { return failure() })
		for i := range byte(5) {
			r.attach(i)
		}
		assert.Equal(t, 5, r.Status().Shared)
		var trying atomic.Int32
		r.fake.setStart(func(context.Context, bool) error {
			if n := trying.Add(1); n > maxStarting {
				r.fake.broken("%d at once", n)
			}
			time.Sleep(time.Second)
			trying.Add(-1)
			return nil
		})
		time.Sleep(40 * time.Second)
		synctest.Wait()
		assert.Equal(t, 5, r.Status().Own)
		assert.EqualValues(t, 5, r.Status().Promoted)
	})
}

// TestOtherSubnetForClient: an interface that cannot reach the others is not used.
func TestOtherSubnetForClient(t *testing.T) {
	f := newFake()
	r := newRig(t, f, with(onNetwork(), func(o *Options) { o.UseAPI = apiInterface }))
	f.mu.Lock()
	f.tune = func(p *api.Params) { p.Start = netip.MustParseAddr("192.168.99.1") }
	f.mu.Unlock()
	a := r.attach(1)
	assert.Equal(t, 1, r.Status().Shared)
	assert.Equal(t, network.MACOf(a.Port.(*port).id), a.Info().MAC, "of no interface, but always the same")
	assert.Equal(t, 1, r.log.count("level=WARN", "192.168.99.0/24"))
	r.until("stopped", func() bool { return len(f.running()) == 1 })
}

// TestIsolated: guests reach the outside and not each other, whether they share the anchor or not.
func TestIsolated(t *testing.T) {
	for _, way := range []string{interfacesClient, interfacesOne} {
		r := newRig(t, newFake(), with(home(), func(o *Options) { o.Isolate, o.Interfaces = true, way }))
		a, b := r.attach(1), r.attach(2)
		b.say(b.to(broadcast, "hello"))
		a.say(a.to(broadcast, "hello"), a.to(b.mac, "hello"))
		host := a.to(broadcast, "from the host")
		host[11] = 77
		for _, i := range r.fake.running() {
			i.put(host)
		}
		r.until("what comes from outside", func() bool { return a.hears("from the host") && b.hears("from the host") })
		assert.False(t, a.hears("hello") || b.hears("hello"), way)
		var out int64
		for _, i := range r.fake.running() {
			out += i.packets.Load()
		}
		assert.GreaterOrEqual(t, out, int64(2), "broadcasts to the outside, %s", way)
	}
}

// TestSinkLimit: what a client does not take is left out and counted, the rest comes in order.
func TestSinkLimit(t *testing.T) {
	for _, way := range []string{interfacesClient, interfacesOne} {
		r := newRig(t, newFake(), with(onNetwork(), func(o *Options) { o.MTU, o.Interfaces = 9000, way }))
		a := r.attach(1)
		b := &guest{r: r, mac: guestMAC(2), max: 1514}
		require.NoError(t, b.plug(context.Background()))
		b.say(b.to(broadcast, "here"))
		r.until("known", func() bool { return a.hears("here") })
		a.say(a.to(b.mac, long(1, 9014)), a.to(b.mac, long(2, 60)), a.to(b.mac, long(3, 1515)), a.to(b.mac, long(4, 1514)), a.to(b.mac, long(5, 9000)))
		r.until("two", func() bool { return len(b.heard()) >= 2 })
		assert.Equal(t, []string{long(2, 60), long(4, 1514)}, b.heard(), way)
		assert.EqualValues(t, 3, b.Stats().Lost[network.DropOversize], way)
	}
}

// TestOddPackets: what no frame can be is left out and counted.
func TestOddPackets(t *testing.T) {
	r := newRig(t, newFake(), onNetwork())
	a := r.attach(1)
	i := r.own(a)
	i.put([]byte("short"))
	i.put(a.to(a.mac, "good"))
	r.until("the good one", func() bool { return a.hears("good") })
	assert.EqualValues(t, 1, a.Stats().Lost[dropRunt])
	i.put([]byte("only"))
	i.put(a.to(a.mac, "after"))
	r.until("the next", func() bool { return a.hears("after") })
}

// TestWaitingPackets: packets that came before the events were on are read without an event.
func TestWaitingPackets(t *testing.T) {
	r := newRig(t, newFake(), onNetwork())
	a := r.attach(1)
	r.fake.setStart(func(context.Context, bool) error { return nil })
	r.fake.mu.Lock()
	r.fake.tune = func(*api.Params) {}
	r.fake.born = func(i *fakeInterface) { i.queue = append(i.queue, a.to(broadcast, "early")) }
	r.fake.mu.Unlock()
	b := r.attach(2)
	r.until("what was there before", func() bool { return b.hears("early") })
}

// TestStalePackets: what the anchor received while no port listened is not for a client that begins to share it.
func TestStalePackets(t *testing.T) {
	r := newRig(t, newFake(), with(onNetwork(), func(o *Options) { o.Interfaces = interfacesOne }))
	anchor := r.anchorOf()
	for round := range 2 {
		anchor.put((&guest{mac: guestMAC(9)}).to(broadcast, "stale"))
		a := r.attach(1)
		anchor.put((&guest{mac: guestMAC(9)}).to(broadcast, "fresh"))
		r.until("what came since", func() bool { return a.hears("fresh") })
		assert.Equal(t, []string{"fresh"}, a.heard(), "round %d", round)
		require.NoError(t, a.Close())
	}
}

// TestIdle: nothing wakes up while nothing happens.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.limit = 3
		r := newRig(t, f, with(onNetwork(), func(o *Options) { o.Patience = time.Second }))
		for i := range byte(2) {
			r.attach(i)
		}
		synctest.Wait()
		before := r.calls()
		time.Sleep(24 * time.Hour)
		assert.Equal(t, before, r.calls(), "calls in a day")
	})
}

// calls is how many reads and writes there were on all interfaces.
func (r *rig) calls() (n int64) {
	for _, i := range r.fake.running() {
		n += i.reads.Load() + i.writes.Load()
	}
	return n
}

// TestNetworkObjectDies: when the service behind vmnet is started again, all interfaces die and the network object is of no
// use: another one is made on the same subnet, and serves all clients.
func TestNetworkObjectDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := newRig(t, f, onNetwork())
		var g []*guest
		for i := range byte(6) {
			g = append(g, r.attach(i))
		}
		var starting atomic.Int32
		r.fake.setStart(func(context.Context, bool) error {
			if n := starting.Add(1); n > maxStarting {
				f.broken("%d starts at once", n)
			}
			time.Sleep(10 * time.Millisecond)
			starting.Add(-1)
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.created) == 1 {
				return &api.CallError{Call: "vmnet_interface_start_with_network", Status: api.InvalidAccess}
			}
			return nil
		})
		busyOnce := true
		f.mu.Lock()
		f.onCreate = func(api.NetworkConfig) error {
			if busyOnce {
				busyOnce = false
				f.created = f.created[:1]
				return busy()
			}
			return nil
		}
		f.mu.Unlock()
		for _, i := range f.running() {
			i.fault(func(i *fakeInterface) {
				i.onRead = func() api.Status { return api.InvalidAccess }
				i.onWrite = func([][]byte) api.Status { return api.InvalidAccess }
			})
		}
		for _, a := range g {
			a.say(a.to(broadcast, "x"))
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 6, r.Status().Own)
		assert.Equal(t, f.created[0], f.created[1])
		assert.Equal(t, 1, r.log.count("level=WARN", "made again", "was dead"))
		for _, b := range g[1:] {
			r.talk(g[0], b)
		}
		assert.Equal(t, 1, f.released)
		r.end()
		assert.Equal(t, 2, f.released)
	})
}
