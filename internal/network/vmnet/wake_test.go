// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// sleepy are options with a wall clock that a test moves, as a sleep does.
func sleepy(o Options) (Options, *atomic.Int64) {
	slept := new(atomic.Int64)
	o.wall = func() time.Time { return time.Now().Round(0).Add(time.Duration(slept.Load())) }
	return o, slept
}

// TestWake: after a sleep what has died in it is started again, though no event tells, and what lives stays as it is.
func TestWake(t *testing.T) {
	plain := func(o *Options) { o.UseAPI = apiInterface }
	tests := []struct {
		name   string
		o      Options
		jump   time.Duration
		status api.Status // of every call of what dies; Success: nothing dies
		anchor bool       // it dies, else the second client's interface
		line   string     // of the log; empty: none
	}{
		{"all live", onNetwork(), 2 * time.Hour, api.Success, false, "slept=2h0m0s interfaces=3 restarted=0"},
		{"one is gone", onNetwork(), 2 * time.Hour, api.InvalidAccess, false, "slept=2h0m0s interfaces=3 restarted=1"},
		{"one fails all the time", onNetwork(), time.Minute, api.Failure, false, "slept=1m0s interfaces=3 restarted=1"},
		{"the anchor is gone", onNetwork(), time.Minute, api.InvalidAccess, true, "slept=1m0s interfaces=3 restarted=1"},
		{"the anchor fails all the time", with(home(), plain), time.Minute, api.Failure, true, "slept=1m0s interfaces=3 restarted=1"},
		{"the anchor that all share is gone", with(home(), func(o *Options) { o.Interfaces = interfacesOne }), time.Minute, api.InvalidAccess, true, "slept=1m0s interfaces=1 restarted=1"},
		{"no sleep", onNetwork(), leastSleep - 1, api.InvalidAccess, false, ""},
		{"the clock is set back", onNetwork(), -time.Hour, api.InvalidAccess, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, slept := sleepy(tt.o)
				r := newRig(t, newFake(), o)
				a, b := r.attach(1), r.attach(2)
				r.talk(a, b)
				time.Sleep(2 * wakeEvery)
				synctest.Wait()
				before := r.fake.running()
				victim := r.anchorOf()
				if !tt.anchor {
					victim = r.own(b)
				}
				victim.fault(func(i *fakeInterface) {
					i.onRead = func() api.Status { return tt.status }
				})
				slept.Add(int64(tt.jump))
				time.Sleep(wakeEvery + wakePatience)
				synctest.Wait()

				st, after := r.Status(), r.fake.running()
				assert.Equal(t, tt.line != "", st.Wakes == 1)
				assert.Equal(t, int(st.Wakes), r.log.count("the host has slept"), "one line")
				assert.Equal(t, int(st.Wakes), r.log.count(tt.line, "the host has slept"), r.log.String())
				require.Len(t, after, len(before))
				died := tt.line != "" && tt.status != api.Success
				for _, i := range before {
					assert.Equal(t, !died || i != victim, slices.Contains(after, i), "only what has died is started again")
				}
				if died {
					assert.Equal(t, 1, st.LastWake.Restarted)
					assert.Equal(t, tt.jump, st.LastWake.Slept)
					assert.Equal(t, 1, r.log.count("has died, starting it again"))
				}
				if tt.line != "" {
					r.talk(a, b)
				}
				time.Sleep(time.Minute)
				assert.Equal(t, st.Wakes, r.Status().Wakes, "told once")
			})
		})
	}
}

// TestWakeWhileCallsHang: a look that does not come back holds nothing up, and the network ends.
func TestWakeWhileCallsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, slept := sleepy(onNetwork())
		r := newRig(t, newFake(), o)
		a, b := r.attach(1), r.attach(2)
		first, hang := r.anchorOf(), make(chan struct{})
		first.fault(func(i *fakeInterface) {
			i.onRead = func() api.Status {
				<-hang
				return api.Success
			}
		})
		synctest.Wait()
		slept.Add(int64(time.Hour))
		time.Sleep(wakeEvery + stopTimeout + wakePatience + time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 1, r.Status().LastWake.Restarted)
		assert.Equal(t, 1, r.log.count("the anchor interface has died", errHangs.Error()))
		r.talk(a, b)
		close(hang)
	})
}
