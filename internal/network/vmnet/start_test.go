// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// A memory is a store.
type memory struct {
	mu     sync.Mutex
	id     [16]byte
	subnet netip.Prefix
	fails  bool
}

func (m *memory) AnchorID() ([16]byte, bool) { return m.id, m.id != [16]byte{} }

func (m *memory) SaveAnchorID(id [16]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails {
		return errors.New("disk full")
	}
	m.id = id
	return nil
}

func (m *memory) Subnet() (netip.Prefix, bool) { return m.subnet, m.subnet.IsValid() }

func (m *memory) SaveSubnet(p netip.Prefix) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails {
		return errors.New("disk full")
	}
	m.subnet = p
	return nil
}

// tryNew starts a network that may fail, in no time where there is a clock of synctest.
func tryNew(f *fake, o Options) (*Network, *logBook, error) {
	log := &logBook{}
	o.API, o.Log = f, log.logger()
	n, err := New(context.Background(), o)
	return n, log, err
}

func TestParametersAreLogged(t *testing.T) {
	r := newRig(t, newFake(), with(onNetwork(), func(o *Options) { o.Interface = "en7" }))
	assert.Equal(t, 1, r.log.count("level=INFO", `msg="initializing network"`, "mode=shared"))
	assert.Equal(t, 1, r.log.count("level=INFO", `msg="using network interface"`, "name=en7"))
	assert.Equal(t, 1, r.log.count("level=INFO", `msg="interface parameter"`, "key=vmnet_mtu", "value=1500"))
	r.attach(1)
	assert.Equal(t, 1, r.log.count("level=DEBUG", `msg="interface parameter"`, "key=vmnet_mtu"))
	assert.Equal(t, 2, r.log.count("key=vmnet_mac_address"))
}

func TestInfo(t *testing.T) {
	tests := []struct {
		name   string
		o      Options
		change func(*fake)
		want   network.Info
	}{
		{"network", onNetwork(), nil, network.Info{
			Mode: network.ModeShared, Subnet: netip.MustParsePrefix("192.168.105.0/24"), Gateway: netip.MustParseAddr("192.168.105.1"),
			DHCPStart: netip.MustParseAddr("192.168.105.2"), DHCPEnd: netip.MustParseAddr("192.168.105.254"), MTU: 1500, MaxFrame: 1514,
		}},
		{"interface with a range", addressed(network.ModeHost, "10.0.0.0/16", "10.0.0.9", "10.0.0.99", "10.0.0.254"), nil, network.Info{
			Mode: network.ModeHost, Subnet: netip.MustParsePrefix("10.0.0.0/16"), Gateway: netip.MustParseAddr("10.0.0.9"),
			DHCPStart: netip.MustParseAddr("10.0.0.10"), DHCPEnd: netip.MustParseAddr("10.0.0.99"), MTU: 1500, MaxFrame: 1514,
		}},
		{"macOS chooses, no DHCP", with(inMode(network.ModeShared), func(o *Options) { o.DisableDHCP, o.MTU = true, 9000 }), nil, network.Info{
			Mode: network.ModeShared, Subnet: fakeDefault, Gateway: netip.MustParseAddr("192.168.64.1"), MTU: 9000, MaxFrame: 9014,
		}},
		{"network that tells no addresses", onNetwork(), func(f *fake) {
			f.tune = func(p *api.Params) { p.Start, p.End, p.Mask = netip.Addr{}, netip.Addr{}, netip.Addr{} }
		}, network.Info{
			Mode: network.ModeShared, Subnet: netip.MustParsePrefix("192.168.105.0/24"), Gateway: netip.MustParseAddr("192.168.105.1"),
			DHCPStart: netip.MustParseAddr("192.168.105.2"), DHCPEnd: netip.MustParseAddr("192.168.105.254"), MTU: 1500, MaxFrame: 1514,
		}},
		{"bridged, nothing told", bridged(), func(f *fake) {
			f.tune = func(p *api.Params) { *p = api.Params{} }
		}, network.Info{Mode: network.ModeBridged, MTU: 1500, MaxFrame: 1514, Interface: "en0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			if tt.change != nil {
				tt.change(f)
			}
			r := newRig(t, f, tt.o)
			tt.want.Backend = "vmnet"
			assert.Equal(t, tt.want, r.Info())
		})
	}
}

// TestConfigs: every option reaches the call that honours it.
func TestConfigs(t *testing.T) {
	f := newFake()
	prefix := netip.MustParsePrefix("fd00:1::/64")
	r := newRig(t, f, with(onNetwork(), func(o *Options) {
		o.Interface, o.NAT66Prefix, o.MTU, o.Offload = "en7", prefix, 9000, true
		o.DisableDHCP, o.DisableNAT44, o.DisableNAT66, o.DisableDNSProxy, o.DisableRA = true, true, true, true, true
		o.Reservations, o.Forwards = someReservation(), someForward()
	}))
	r.end()
	assert.Equal(t, []api.NetworkConfig{{
		Mode: network.ModeShared, ExternalInterface: "en7", Subnet: netip.MustParsePrefix("192.168.105.0/24"), NAT66Prefix: prefix, MTU: 9000,
		DisableDHCP: true, DisableNAT44: true, DisableNAT66: true, DisableDNSProxy: true, DisableRA: true,
		Reservations: someReservation(), Forwards: someForward(),
	}}, f.created)
	assert.False(t, f.every[0].isolate)
	assert.Empty(t, f.every[0].forwards, "those are the network's")

	f = newFake()
	f.features = macOS15
	id, networkID := [16]byte{1}, [16]byte{2}
	r = newRig(t, f, with(addressed(network.ModeHost, "10.0.0.0/16", "10.0.0.9", "10.0.0.99", "10.0.0.254"), func(o *Options) {
		o.Interface, o.NAT66Prefix, o.MTU, o.Isolate, o.Offload = "en7", prefix, 9000, true, true
		o.InterfaceID, o.NetworkID, o.Forwards = id, networkID, someForward()
	}))
	r.attach(1)
	r.end()
	want := api.InterfaceConfig{
		Mode: network.ModeHost, SharedInterface: "en7", Start: netip.MustParseAddr("10.0.0.9"), End: netip.MustParseAddr("10.0.0.99"),
		Mask: netip.MustParseAddr("255.255.0.0"), InterfaceID: id, NetworkID: networkID, NAT66Prefix: prefix, MTU: 9000, Isolate: true, Offload: true,
	}
	assert.Equal(t, want, f.configs[0])
	want.InterfaceID = network.DeriveID(id, "id 1")
	assert.Equal(t, want, f.configs[1], "a client's has another id and is else the same")
	assert.Equal(t, someForward(), f.every[0].forwards)
	assert.Empty(t, f.every[1].forwards)
}

// TestIdentities: the anchor's id is the one given, else the kept one, else a new one that is kept; those of clients follow
// from it.
func TestIdentities(t *testing.T) {
	m := &memory{}
	older := with(onNetwork(), func(o *Options) { o.UseAPI, o.Identity = apiInterface, m })
	f := newFake()
	r := newRig(t, f, older)
	_, err := r.Attach(context.Background(), network.PortOptions{Name: "n"}, &guest{max: 1514})
	require.NoError(t, err)
	r.end()
	id, ok := m.AnchorID()
	require.True(t, ok)
	assert.Equal(t, id, r.Status().AnchorID)

	f2 := newFake()
	r = newRig(t, f2, older)
	assert.Equal(t, id, r.Status().AnchorID, "kept")
	p, err := r.Attach(context.Background(), network.PortOptions{Name: "n"}, &guest{max: 1514})
	require.NoError(t, err)
	assert.Equal(t, f.configs[1].InterfaceID, f2.configs[1].InterfaceID, "the lowest free slot has the same id again")
	require.NoError(t, p.Close())
	_, err = r.Attach(context.Background(), network.PortOptions{Name: "n"}, &guest{max: 1514})
	require.NoError(t, err)
	assert.Equal(t, f2.configs[1].InterfaceID, f2.configs[2].InterfaceID, "and after it was closed")
	r.end()

	r = newRig(t, newFake(), with(older, func(o *Options) { o.InterfaceID = [16]byte{7} }))
	assert.Equal(t, [16]byte{7}, r.Status().AnchorID)
	assert.Equal(t, id, m.id, "what was given is not kept")
	r.end()

	m.fails = true
	m.id = [16]byte{}
	m.subnet = netip.Prefix{}
	r = newRig(t, newFake(), older)
	assert.Equal(t, 2, r.log.count("level=WARN", "disk full"))
}

// TestSubnetIsKept: a network without --vmnet-gateway asks for the subnet of its last start, and does without where
// that does not exist.
func TestSubnetIsKept(t *testing.T) {
	auto := with(inMode(network.ModeShared), func(o *Options) { o.UseAPI = apiNetwork })
	last := netip.MustParsePrefix("192.168.77.0/24")
	m := &memory{subnet: last}
	f := newFake()
	r := newRig(t, f, with(auto, func(o *Options) { o.Identity = m }))
	assert.Equal(t, last, r.Info().Subnet)
	r.end()
	assert.Equal(t, last, m.subnet)

	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.onCreate = func(c api.NetworkConfig) error {
			if c.Subnet == last {
				return busy()
			}
			return nil
		}
		began := time.Now()
		r := newRig(t, f, with(auto, func(o *Options) { o.Identity = m }))
		assert.Equal(t, fakeDefault, r.Info().Subnet)
		assert.Equal(t, apiNetwork, r.Status().API)
		assert.Equal(t, 1, r.log.count("level=WARN", last.String()))
		assert.InDelta(t, 5, time.Since(began).Seconds(), 1)
		r.end()
		assert.Equal(t, fakeDefault, m.subnet, "the new one is kept")
	})

	m.subnet = last
	f = newFake()
	f.other = fakeDefault
	r = newRig(t, f, with(auto, func(o *Options) { o.Identity = m }))
	assert.Equal(t, fakeDefault, r.Info().Subnet, "macOS gave another one")
	r.end()

	m.subnet = last
	r = newRig(t, newFake(), with(onNetwork(), func(o *Options) { o.Identity = m }))
	assert.Equal(t, netip.MustParsePrefix("192.168.105.0/24"), r.Info().Subnet, "the user's wins")
	r.end()
	assert.Equal(t, netip.MustParsePrefix("192.168.105.0/24"), m.subnet)
}

// TestOtherSubnet: what the user asked for and did not get ends the start, in either way.
func TestOtherSubnet(t *testing.T) {
	for _, way := range []string{apiAuto, apiNetwork, apiInterface} {
		f := newFake()
		f.other = fakeDefault
		_, _, err := tryNew(f, with(onNetwork(), func(o *Options) { o.UseAPI = way }))
		assert.ErrorContains(t, err, "192.168.64.0/24, not 192.168.105.0/24", way)
		assert.ErrorContains(t, err, "--vmnet-gateway", way)
		assert.Empty(t, f.running(), way)
		assert.Equal(t, len(f.created), f.released, way)
	}
}

// TestBusy: a busy subnet is waited for, and then the other way is tried where that honours the options.
func TestBusy(t *testing.T) {
	general := func() error { return &api.CallError{Call: "vmnet_network_create", Status: api.Failure} }
	authorized := func() error { return &api.CallError{Call: "vmnet_network_create", Status: api.NotAuthorized} }
	const never = time.Hour
	tests := []struct {
		name          string
		o             Options
		create, start func() error
		free          time.Duration // until then create and start fail
		after         time.Duration // until New returns
		api           string        // empty = an error
	}{
		{"network, free in time", onNetwork(), busy, nil, 3 * time.Second, 3 * time.Second, apiNetwork},
		{"network, general failure at create, free in time", onNetwork(), general, nil, 3 * time.Second, 3 * time.Second, apiNetwork},
		{"first start on a network, free in time", onNetwork(), nil, busy, 3 * time.Second, 3 * time.Second, apiNetwork},
		{"network, never", onNetwork(), busy, nil, never, 5 * time.Second, ""},
		{"network, another failure", onNetwork(), authorized, nil, never, 0, ""},
		{"interface, free in time", with(home(), func(o *Options) { o.UseAPI = apiInterface }), nil, busy, 3 * time.Second, 3 * time.Second, apiInterface},
		{"interface, another failure", with(home(), func(o *Options) { o.UseAPI = apiInterface }), nil, failure, never, 0, ""},
		{"either, free in time", home(), busy, busy, 3 * time.Second, 3 * time.Second, apiInterface},
		{"either, plain ones never", home(), nil, busy, never, 5 * time.Second, apiNetwork},
		{"either, plain ones fail otherwise", home(), nil, failure, never, 0, apiNetwork},
		{"both, never", home(), busy, busy, never, 5 * time.Second, ""},
		{
			"a job of launchd, another failure", with(onNetwork(), func(o *Options) { o.UseAPI, o.RetryAll, o.Patience = apiInterface, true, LaunchdPatience }),
			nil, failure, 40 * time.Second, 40 * time.Second, apiInterface,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				until := func(fail func() error) error {
					if fail == nil || time.Since(began) >= tt.free {
						return nil
					}
					return fail()
				}
				f := newFake()
				var onNetwork atomic.Bool
				f.onCreate = func(api.NetworkConfig) error { onNetwork.Store(true); return until(tt.create) }
				f.onStart = func(context.Context, bool) error {
					if onNetwork.Load() && strings.HasPrefix(tt.name, "either, plain ones") {
						return nil
					}
					return until(tt.start)
				}
				n, log, err := tryNew(f, tt.o)
				assert.InDelta(t, tt.after.Seconds(), time.Since(began).Seconds(), 0.6)
				if tt.api == "" {
					require.Error(t, err)
					assert.Regexp(t, `^vmnet_[a-z_]+: \[10\d\d\] VMNET_`, err.Error(), "as socket_vmnet's log has it")
				} else {
					require.NoError(t, err)
					assert.Equal(t, tt.api, n.Status().API)
					fell := tt.o.UseAPI == "" && tt.api == apiNetwork
					assert.Equal(t, fell, log.count("level=WARN", "plain interfaces do not start") > 0, log)
					require.NoError(t, n.Close())
				}
				assert.Empty(t, f.rules())
				assert.Empty(t, f.running())
			})
		})
	}
}

// TestForwardFails: a forward that cannot be made ends the start.
func TestForwardRefused(t *testing.T) {
	f := newFake()
	f.onForward = func(context.Context) error { return errors.New("port in use") }
	_, _, err := tryNew(f, with(onNetwork(), func(o *Options) { o.UseAPI, o.Forwards = apiInterface, someForward() }))
	assert.ErrorContains(t, err, "--vmnet-forward=tcp:8080=192.168.105.9:80: port in use")
	assert.Empty(t, f.running())
}

func TestChooseErrorsEndTheStart(t *testing.T) {
	f := newFake()
	f.features = macOS15
	_, _, err := tryNew(f, with(onNetwork(), func(o *Options) { o.DisableDHCP = true }))
	assert.ErrorContains(t, err, "macOS 26")
	assert.Empty(t, f.created)
	assert.Empty(t, f.every, "before the framework is called")
}
