// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package vmnet

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/ffi"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnettest"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// never is a delay in milliseconds that a test ends by setting a lower one.
const never = 1 << 40

// A sim is a simulator with its switches.
type sim struct {
	*ffi.API
	*vmnetsim.Control
	left   int64 // interfaces of one network that could not be stopped, on purpose
	queues int64 // for handlers that were not called, on purpose
}

// sims has each library once, as a process does.
var sims struct {
	sync.Mutex
	open map[vmnetsim.Flavour]*sim
}

// simulator opens a flavour of the simulator, all switches as they are at first, and checks at the end of the test that
// nothing is left in it.
func simulator(t *testing.T, f vmnetsim.Flavour) *sim {
	t.Helper()
	lib := vmnetsim.Library(t, f)
	sims.Lock()
	defer sims.Unlock()
	s := sims.open[f]
	if s == nil {
		dir, err := os.MkdirTemp("", "vmnet") // as long as the process, which goes on using the files
		require.NoError(t, err)
		c, err := vmnetsim.Open(filepath.Join(dir, "sim"))
		require.NoError(t, err)
		a, err := ffi.OpenSimulator(lib, filepath.Join(dir, "sim"))
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll(dir)) // mapped all the same
		if s = (&sim{API: a, Control: c}); sims.open == nil {
			sims.open = map[vmnetsim.Flavour]*sim{}
		}
		sims.open[f] = s
	}
	s.Reset()
	t.Cleanup(func() {
		s.Reset()
		s.empty(t)
	})
	return s
}

// empty waits until nothing is left in the simulator.
func (s *sim) empty(t *testing.T) {
	t.Helper()
	assert.Eventually(t, func() bool {
		g := s.Gauges()
		return g.Interfaces == s.left && g.Networks == min(s.left, 1) && g.Queues == s.queues
	}, patience, time.Millisecond, "left: %+v", s.Gauges())
}

func (s *sim) options(o Options) Options {
	o.API = s
	return o
}

// newSimRig starts a network on the simulator.
func newSimRig(t *testing.T, s *sim, o Options) *rig {
	t.Helper()
	return startRig(t, s.options(o))
}

// TestSimConformance runs the suite that every network must pass, through the binding into the simulator.
func TestSimConformance(t *testing.T) {
	older := with(onNetwork(), func(o *Options) { o.UseAPI = APIInterface })
	one := with(onNetwork(), func(o *Options) { o.Interfaces = InterfacesOne })
	tests := []struct {
		name    string
		flavour vmnetsim.Flavour
		o       Options
		set     map[vmnetsim.Switch]int64
	}{
		{"network", vmnetsim.Full, onNetwork(), nil},
		{"interfaces", vmnetsim.Full, older, nil},
		{"bridged", vmnetsim.Full, bridged(), nil},
		{"macOS 15", vmnetsim.NoMacOS26, home(), nil},
		{"macOS 14", vmnetsim.NoMacOS15, home(), nil},
		{"one interface", vmnetsim.Full, one, nil},
		{"no room for clients", vmnetsim.Full, onNetwork(), map[vmnetsim.Switch]int64{vmnetsim.MaxInterfaces: 1}},
		{"no unicast between interfaces", vmnetsim.Full, one, map[vmnetsim.Switch]int64{vmnetsim.NoUnicast: 1}},
		{"short reads", vmnetsim.Full, onNetwork(), map[vmnetsim.Switch]int64{vmnetsim.ReadMax: 3}},
		{"late events", vmnetsim.Full, onNetwork(), map[vmnetsim.Switch]int64{vmnetsim.EventDelay: 500}},
		{"local switching", vmnetsim.Full, locally(), nil},
		{"local switching, one interface", vmnetsim.Full, with(locally(), func(o *Options) { o.Interfaces = InterfacesOne }), nil},
		{"local switching, late events", vmnetsim.Full, locally(), map[vmnetsim.Switch]int64{vmnetsim.EventDelay: 500}},
		{"offload", vmnetsim.Full, with(onNetwork(), func(o *Options) { o.Offload = true }), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := simulator(t, tt.flavour)
			for k, v := range tt.set {
				s.Set(k, v)
			}
			vnettest.TestNetwork(t, func(t *testing.T) vnet.Network {
				n, err := New(context.Background(), s.options(tt.o))
				require.NoError(t, err)
				return n
			}, ways(tt.o)...)
		})
	}
}

// TestSimStartStatus: each status at each call that starts a network ends the start with that status, and leaves nothing.
func TestSimStartStatus(t *testing.T) {
	viaNetwork := with(onNetwork(), func(o *Options) { o.UseAPI, o.Patience = APINetwork, time.Millisecond })
	everything := with(viaNetwork, func(o *Options) {
		o.Interface, o.NAT66Prefix, o.MTU = "en0", netip.MustParsePrefix("fd00:1::/64"), 9000
		o.Reservations, o.Forwards = someReservation(), someForward()
	})
	plain := with(onNetwork(), func(o *Options) {
		o.UseAPI, o.Patience, o.Forwards = APIInterface, time.Millisecond, someForward()
	})
	for _, tt := range []struct {
		s vmnetsim.Switch
		o Options
	}{
		{vmnetsim.ConfigCreateResult, viaNetwork},
		{vmnetsim.SetExternalResult, everything},
		{vmnetsim.SetSubnetResult, viaNetwork},
		{vmnetsim.SetPrefixResult, everything},
		{vmnetsim.SetMTUResult, everything},
		{vmnetsim.AddReservationResult, everything},
		{vmnetsim.AddForwardResult, everything},
		{vmnetsim.NetworkCreateResult, viaNetwork},
		{vmnetsim.StartOnStatus, viaNetwork},
		{vmnetsim.StartStatus, plain},
		{vmnetsim.ForwardStatus, plain},
		{vmnetsim.ForwardResult, plain},
	} {
		t.Run(string(tt.s), func(t *testing.T) {
			s := simulator(t, vmnetsim.Full)
			for st := api.Failure; st <= api.NotAuthorized; st++ {
				s.Set(tt.s, int64(st))
				_, err := New(context.Background(), s.options(tt.o))
				require.ErrorIs(t, err, st)
				s.empty(t)
			}
			s.Set(tt.s, 0)
			startRig(t, s.options(tt.o)).end()
		})
	}
}

// TestSimClientStatus: each status at each call of a client's interface; the client is served all the same, and another one
// too.
func TestSimClientStatus(t *testing.T) {
	for _, sw := range []vmnetsim.Switch{
		vmnetsim.StartOnStatus, vmnetsim.SetEventCallbackResult, vmnetsim.ReadResult, vmnetsim.WriteResult, vmnetsim.StopStatus,
	} {
		t.Run(string(sw), func(t *testing.T) {
			s := simulator(t, vmnetsim.Full)
			for st := api.Failure; st <= api.NotAuthorized; st++ {
				r := newSimRig(t, s, onNetwork())
				a := r.attach(1)
				s.Set(sw, int64(st), 1)
				b := r.attach(2)
				r.meet(a, b)
				require.NoError(t, b.Close())
				r.meet(a, r.attach(3))
				r.end()
				s.Reset()
			}
		})
	}
}

// TestSimStopRefused: an interface that cannot be stopped is left behind, and nobody else is harmed.
func TestSimStopRefused(t *testing.T) {
	s := simulator(t, vmnetsim.NoMacOS15) // which few other tests use: what stays may be in their way
	r := newSimRig(t, s, addressed(vnet.ModeShared, "192.168.99.0/24", "192.168.99.1", "", "192.168.99.254"))
	a, b, c := r.attach(1), r.attach(2), r.attach(3)
	r.talk(a, b)
	s.Set(vmnetsim.StopResult, int64(api.Failure), 1)
	require.NoError(t, b.Close())
	s.left++
	assert.Equal(t, 1, r.log.count("level=WARN", "could not be stopped", "guest 2"))
	r.talk(a, c)
	r.meet(a, r.attach(2))
	r.end()
}

// meet lets two guests talk until they hear each other: frames may be lost before.
func (r *rig) meet(a, b *guest) {
	r.t.Helper()
	word := fmt.Sprintf("meet %d", talks.add())
	r.until("they meet", func() bool {
		a.say(a.to(everybody, word), a.to(b.mac, word+"!"))
		b.say(b.to(everybody, word), b.to(a.mac, word+"!"))
		return a.hears(word+"!") && b.hears(word+"!") && a.hears(word) && b.hears(word)
	})
}

// TestSimEveryStatusOfEveryCall: an interface that dies with any status is replaced behind its client.
func TestSimDies(t *testing.T) {
	for _, st := range []api.Status{api.InvalidAccess, api.SetupIncomplete, api.Failure} {
		for _, ordinal := range []int64{1, 3} { // the anchor; the second client
			t.Run(fmt.Sprintf("%d %s", ordinal, st.Name()), func(t *testing.T) {
				s := simulator(t, vmnetsim.Full)
				o := onNetwork()
				if ordinal == 1 {
					o.Interfaces = InterfacesOne
				}
				r := newSimRig(t, s, o)
				a, b := r.attach(1), r.attach(2)
				r.meet(a, b)
				s.Set(vmnetsim.DieStatus, int64(st))
				s.Set(vmnetsim.DieOrdinal, ordinal)
				r.until("a restart", func() bool {
					a.say(a.to(everybody, "x"))
					b.say(b.to(everybody, "x"))
					return r.Status().Restarts == 1
				})
				r.meet(a, b)
				if ordinal == 3 {
					r.until("an own one again", func() bool { return r.Status().Own == 2 })
					r.meet(a, b)
				} else {
					r.until("an anchor again", func() bool { return r.Status().Starts == 2 })
				}
				r.end()
			})
		}
	}
}

// TestSimMoreClientsThanInterfaces: the limit of macOS, and what happens as clients leave.
func TestSimMoreClientsThanInterfaces(t *testing.T) {
	s := simulator(t, vmnetsim.Full)
	s.Set(vmnetsim.MaxInterfaces, 4)
	r := newSimRig(t, s, onNetwork())
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
	for _, leaver := range g[:2] {
		n := r.Status().Promoted
		require.NoError(t, leaver.Close())
		r.until("a move", func() bool { return r.Status().Promoted == n+1 })
		for _, b := range g[3:] {
			r.meet(g[2], b)
		}
	}
	assert.Equal(t, 3, r.Status().Own)
	assert.Equal(t, 1, r.Status().Shared)
	r.end()
}

// TestSimReconnect: thirty clients come at once, more than there are interfaces, leave at once and come again.
func TestSimReconnect(t *testing.T) {
	s := simulator(t, vmnetsim.Full)
	s.Set(vmnetsim.StartDelay, 20)
	s.Set(vmnetsim.StopDelay, 20)
	s.Set(vmnetsim.MaxInterfaces, 24)
	r := newSimRig(t, s, onNetwork())
	stay := r.attach(200)
	for range 3 {
		var wg sync.WaitGroup
		guests := make([]*guest, 30)
		for i := range guests {
			wg.Go(func() {
				g, err := r.tryAttach(context.Background(), byte(i))
				if assert.NoError(t, err) {
					guests[i] = g
				}
			})
		}
		wg.Wait()
		for _, g := range guests {
			r.meet(stay, g)
		}
		for _, g := range guests {
			wg.Go(func() { assert.NoError(t, g.Close()) })
		}
		wg.Wait()
	}
	r.end()
}

// TestSimBusySubnet: a network comes back on its subnet although macOS keeps that busy for a while.
func TestSimBusySubnet(t *testing.T) {
	for _, way := range []string{APINetwork, APIInterface} {
		t.Run(way, func(t *testing.T) {
			s := simulator(t, vmnetsim.Full)
			s.Set(vmnetsim.BusyAfter, 1000)
			o := with(onNetwork(), func(o *Options) { o.UseAPI, o.Patience = way, patience })
			for range 2 {
				r := newSimRig(t, s, o)
				assert.Equal(t, way, r.Status().API)
				assert.Equal(t, "192.168.105.0/24", r.Info().Subnet.String())
				r.talk(r.attach(1), r.attach(2))
				r.end()
			}
		})
	}
}

// TestSimOtherSubnet: the subnet that the user asked for, or none.
func TestSimOtherSubnet(t *testing.T) {
	s := simulator(t, vmnetsim.Full)
	s.Set(vmnetsim.OtherSubnet, vmnetsim.SubnetValue(netip.MustParseAddr("192.168.77.0")))
	_, err := New(context.Background(), s.options(onNetwork()))
	require.ErrorContains(t, err, "192.168.77.0/24, not 192.168.105.0/24")
	r := newSimRig(t, s, Options{Mode: vnet.ModeShared})
	assert.Equal(t, "192.168.77.0/24", r.Info().Subnet.String())
	r.end()
}

// TestSimSlowStart: a client that leaves while its interface starts, and one that waits for it.
func TestSimSlowStart(t *testing.T) {
	s := simulator(t, vmnetsim.Full)
	r := newSimRig(t, s, onNetwork())
	a := r.attach(1)
	s.Set(vmnetsim.StartDelay, never)
	ctx, cancel := context.WithCancel(context.Background())
	starts := s.Calls()["vmnet_interface_start_with_network"]
	done := make(chan error)
	go func() {
		_, err := r.tryAttach(ctx, 2)
		done <- err
	}()
	r.until("the start", func() bool { return s.Calls()["vmnet_interface_start_with_network"] > starts })
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	s.Set(vmnetsim.StartDelay, 300)
	r.talk(a, r.attach(3))
	assert.Equal(t, 2, r.Status().Own)
	r.until("the late one stops", func() bool { return s.Gauges().Interfaces == 3 })
	r.end()
}

// TestSimCloseDuringStart: Close does not wait for an interface that starts for long; it is stopped all the same.
func TestSimCloseDuringStart(t *testing.T) {
	s := simulator(t, vmnetsim.Full)
	r := newSimRig(t, s, onNetwork())
	s.Set(vmnetsim.StartDelay, never)
	done := make(chan error)
	before := s.Calls()["vmnet_interface_start_with_network"]
	go func() {
		_, err := r.tryAttach(context.Background(), 2)
		done <- err
	}()
	r.until("the start", func() bool { return s.Calls()["vmnet_interface_start_with_network"] > before })
	require.NoError(t, r.Close())
	require.ErrorIs(t, <-done, vnet.ErrClosed)
	s.Set(vmnetsim.StartDelay, 0)
	s.empty(t)
}

// TestSimSilent: handlers that are never called.
func TestSimSilent(t *testing.T) {
	t.Run("start", func(t *testing.T) {
		s := simulator(t, vmnetsim.Full)
		r := newSimRig(t, s, onNetwork())
		a := r.attach(1)
		s.Set(vmnetsim.StartOnNull, 1, 1)
		r.talk(a, r.attach(2))
		s.Set(vmnetsim.StartOnNull, 2, 1)
		r.talk(a, r.attach(3))
		assert.Equal(t, 2, r.Status().Shared)
		r.end()
		s.queues++ // of the second
	})
	t.Run("stop", func(t *testing.T) {
		s := simulator(t, vmnetsim.Full)
		r := newSimRig(t, s, onNetwork())
		a, b := r.attach(1), r.attach(2)
		r.talk(a, b)
		s.Set(vmnetsim.StopSilent, 1)
		require.NoError(t, r.Close()) // comes back, within times that TestStopHangs knows
		s.queues += 3
	})
}

// TestSimExhausted: writes that find no buffers cost what they did not carry.
func TestSimExhausted(t *testing.T) {
	s := simulator(t, vmnetsim.Full)
	r := newSimRig(t, s, onNetwork())
	a, b := r.attach(1), r.attach(2)
	r.talk(a, b)
	s.Set(vmnetsim.WriteExhaustEvery, 2)
	var frames [][]byte
	for i := range 100 {
		frames = append(frames, a.to(b.mac, long(i, 100)))
	}
	for range 10 {
		a.say(frames...)
	}
	lost := a.Stats().Drops[vnet.DropExhausted]
	s.Set(vmnetsim.WriteExhaustEvery, 0)
	r.until("all others", func() bool {
		n := 0
		for _, p := range b.heard() {
			if strings.HasSuffix(p, "xxx") {
				n++
			}
		}
		return uint64(n) == 1000-lost
	})
	assert.Less(t, lost, uint64(500))
	assert.Equal(t, lost, r.Status().Exhausted)
	r.end()
}

// TestSimLostEvents: an event that never comes holds packets back until the next one, and no longer.
func TestSimLostEvents(t *testing.T) {
	s := simulator(t, vmnetsim.Full)
	r := newSimRig(t, s, onNetwork())
	a, b := r.attach(1), r.attach(2)
	s.Set(vmnetsim.EventLoseEvery, 2)
	for range 50 {
		r.meet(a, b)
	}
	s.Set(vmnetsim.EventLoseEvery, 0)
	r.end()
}

// TestSimStorm: four clients flood each other and nobody is harmed; those that go on afterwards get all frames.
func TestSimStorm(t *testing.T) {
	s := simulator(t, vmnetsim.Full)
	s.Set(vmnetsim.MaxInterfaces, 3)
	r := newSimRig(t, s, onNetwork())
	var g []*guest
	for i := range byte(4) {
		g = append(g, r.attach(i))
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	var sent atomic.Int64
	for _, a := range g {
		var frames [][]byte
		for i := range 64 {
			frames = append(frames, a.to(everybody, long(i, 1514)))
		}
		wg.Go(func() {
			for !stop.Load() {
				a.say(frames...)
				sent.Add(64)
			}
		})
	}
	r.until("many frames", func() bool { return sent.Load() > 50_000 })
	stop.Store(true)
	wg.Wait()
	for _, a := range g[1:] {
		r.meet(g[0], a)
	}
	r.end()
}
