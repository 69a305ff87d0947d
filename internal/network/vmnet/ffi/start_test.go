// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim && !darwin

package ffi_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// A way is one of the two ways to start an interface, with its switches.
type way struct {
	call                 string
	status, silent, null vmnetsim.Switch
	start                func(ctx context.Context) (api.Interface, error)
}

// ways makes both ways.
func ways(t *testing.T, s *sim) []way {
	n, err := s.NewNetwork(api.NetworkConfig{Mode: network.ModeShared})
	require.NoError(t, err)
	t.Cleanup(n.Release)
	return []way{
		{
			"vmnet_start_interface", vmnetsim.StartStatus, vmnetsim.StartSilent, vmnetsim.StartNull,
			func(ctx context.Context) (api.Interface, error) { return s.Start(ctx, shared) },
		},
		{
			"vmnet_interface_start_with_network", vmnetsim.StartOnStatus, vmnetsim.StartOnSilent, vmnetsim.StartOnNull,
			func(ctx context.Context) (api.Interface, error) { return n.Start(ctx, api.InterfaceConfig{}) },
		},
	}
}

func TestStartStatus(t *testing.T) {
	s := open(t, vmnetsim.Full)
	idle := s.Idle()
	defer func() { assert.LessOrEqual(t, s.Idle()-idle, 2, "blocks are used again") }()
	for _, w := range ways(t, s) {
		for _, st := range statuses {
			s.c.Set(w.status, int64(st), 1)
			_, err := w.start(within(t))
			isStatus(t, err, w.call, st)
		}
		i, err := w.start(within(t))
		require.NoError(t, err, "the next one is not affected")
		require.NoError(t, i.Stop(within(t)))
	}
}

func TestStartGivesNull(t *testing.T) {
	s := open(t, vmnetsim.Full)
	for _, w := range ways(t, s) {
		t.Run(w.call, func(t *testing.T) {
			// The handler comes and says why.
			s.c.Set(w.null, 1, 1)
			s.c.Set(w.status, int64(api.NotAuthorized), 1)
			_, err := w.start(within(t))
			isStatus(t, err, w.call, api.NotAuthorized)

			// The handler says that all is well. It is not: there is no interface.
			s.c.Set(w.null, 1, 1)
			s.c.Set(w.status, int64(api.Success), 1)
			_, err = w.start(within(t))
			isStatus(t, err, w.call, api.Failure)

			// The handler does not come. It is waited for a while.
			s.c.Set(w.null, 2, 1)
			began := time.Now()
			_, err = w.start(within(t))
			isStatus(t, err, w.call, api.Failure)
			assert.GreaterOrEqual(t, time.Since(began), time.Second)
		})
	}
}

// TestStartGivesNullThenLate has the handler come after it was given up.
func TestStartGivesNullThenLate(t *testing.T) {
	s := open(t, vmnetsim.Full)
	for _, st := range []api.Status{api.SharingServiceBusy, api.Success} {
		s.c.Set(vmnetsim.StartNull, 1, 1)
		s.c.Set(vmnetsim.StartStatus, int64(st), 1)
		s.c.Set(vmnetsim.StartDelay, never)
		_, err := s.Start(within(t), shared)
		isStatus(t, err, "vmnet_start_interface", api.Failure)
		s.c.Set(vmnetsim.StartDelay, 0) // it comes, and does nothing: see nothingLeft
	}
}

func TestStartSilent(t *testing.T) {
	s := open(t, vmnetsim.Full)
	for _, w := range ways(t, s) {
		s.c.Set(w.silent, 1, 1)
		err := s.during(t, w.call, func(ctx context.Context) error { _, err := w.start(ctx); return err })
		require.ErrorIs(t, err, api.ErrNoAnswer)
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorContains(t, err, w.call)
		s.kept.Add(ffi.Gauges{Interfaces: 1, Queues: 1, Answers: 1})
	}
}

// TestStartLate has the caller gone when the handler comes: what was started is stopped.
func TestStartLate(t *testing.T) {
	s := open(t, vmnetsim.Full)
	for _, w := range ways(t, s) {
		for _, st := range []api.Status{api.Success, api.Failure} {
			stops := s.c.Calls()["vmnet_stop_interface"]
			s.c.Set(vmnetsim.StartDelay, never)
			if st != api.Success {
				s.c.Set(w.status, int64(st), 1)
			}
			err := s.during(t, w.call, func(ctx context.Context) error { _, err := w.start(ctx); return err })
			require.ErrorIs(t, err, api.ErrNoAnswer)
			s.c.Set(vmnetsim.StartDelay, 0)
			if st == api.Success {
				stops++
			}
			assert.Eventually(t, func() bool {
				return s.c.Calls()["vmnet_stop_interface"] == stops && s.Gauges().Interfaces == s.before.Interfaces
			}, patience, time.Millisecond, "stopped: %v", st == api.Success)
		}
	}
}

func TestStartWithoutTime(t *testing.T) {
	s := open(t, vmnetsim.Full)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, w := range ways(t, s) {
		_, err := w.start(ctx)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, s.c.Calls()[w.call], "nothing was begun")
	}
}

// TestDescription checks that each field arrives.
func TestDescription(t *testing.T) {
	s := open(t, vmnetsim.Full)
	addr := netip.MustParseAddr
	start := func(t *testing.T, c api.InterfaceConfig) api.Params {
		i, err := s.Start(within(t), c)
		require.NoError(t, err)
		stopLater(t, i)
		return i.Params()
	}
	t.Run("shared", func(t *testing.T) {
		p := start(t, api.InterfaceConfig{
			Mode: network.ModeShared, Start: addr("192.168.105.1"), End: addr("192.168.105.200"), Mask: addr("255.255.255.0"),
			InterfaceID: [16]byte{0xaa, 15: 1}, NAT66Prefix: netip.MustParsePrefix("fd12:3456:789a:1::/64"), MTU: 1400, Offload: true,
		})
		assert.Equal(t, "AA000000-0000-0000-0000-000000000001", p.InterfaceID)
		assert.Equal(t, []netip.Addr{addr("192.168.105.1"), addr("192.168.105.200"), addr("255.255.255.0")}, []netip.Addr{p.Start, p.End, p.Mask})
		assert.Equal(t, 1400, p.MTU)
		assert.Equal(t, 65550, p.MaxPacket, "offload")
		o := s.owner(t)
		assert.Equal(t, uint32(1001), o.Mode)
		assert.Equal(t, "fd12:3456:789a:1::/64", o.Prefix6.String())
	})
	t.Run("host", func(t *testing.T) {
		start(t, api.InterfaceConfig{Mode: network.ModeHost})
		assert.Equal(t, uint32(1000), s.owner(t).Mode)
	})
	t.Run("isolated network", func(t *testing.T) {
		p := start(t, api.InterfaceConfig{Mode: network.ModeHost, NetworkID: [16]byte{1}})
		assert.False(t, p.Start.IsValid(), "it has no DHCP")
	})
	t.Run("bridged", func(t *testing.T) {
		start(t, api.InterfaceConfig{Mode: network.ModeBridged, SharedInterface: "en1"})
		_, err := s.Start(within(t), api.InterfaceConfig{Mode: network.ModeBridged, SharedInterface: "en9"})
		isStatus(t, err, "vmnet_start_interface", api.InvalidArgument)
	})
	// Isolation and offload are said each time, as the framework's defaults are not documented.
	assert.Equal(t, 3*s.c.Calls()["vmnet_start_interface"], s.c.Calls()["xpc_dictionary_set_bool"])
}

// TestIsolate checks isolation by its effect.
func TestIsolate(t *testing.T) {
	s := open(t, vmnetsim.Full)
	for _, isolate := range []bool{false, true} {
		var ends []api.Interface
		for range 2 {
			i, err := s.Start(within(t), api.InterfaceConfig{Mode: network.ModeShared, Isolate: isolate})
			require.NoError(t, err)
			ends = append(ends, i)
		}
		require.NoError(t, ends[1].Notify(true))
		send(t, ends[0], numbered(1, 60))
		if !isolate {
			require.True(t, waitFor(t, ends[1]))
		}
		got := len(receive(t, ends[1]))
		assert.Equal(t, !isolate, got == 1, "isolate %v: %d frames", isolate, got)
		for _, i := range ends {
			require.NoError(t, i.Stop(within(t)))
		}
	}
}
