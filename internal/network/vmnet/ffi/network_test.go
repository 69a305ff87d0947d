// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim && !darwin

package ffi_test

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// owner is the one subnet that is owned now.
func (s *sim) owner(t testing.TB) vmnetsim.Owner {
	t.Helper()
	var owned []vmnetsim.Owner
	for _, o := range s.c.Owners() {
		if o.Freed.IsZero() {
			owned = append(owned, o)
		}
	}
	require.Len(t, owned, 1)
	return owned[0]
}

// everything sets every option of a network.
func everything() api.NetworkConfig {
	return api.NetworkConfig{
		Mode:              network.ModeShared,
		ExternalInterface: "en1",
		Subnet:            netip.MustParsePrefix("192.168.77.0/25"),
		NAT66Prefix:       netip.MustParsePrefix("fd12:3456:789a:1::/64"),
		MTU:               1400,
		DisableNAT44:      true,
		DisableNAT66:      true,
		DisableDHCP:       true,
		DisableDNSProxy:   true,
		DisableRA:         true,
		Reservations: []network.Reservation{
			{MAC: net.HardwareAddr{2, 3, 4, 5, 6, 7}, Addr: netip.MustParseAddr("192.168.77.9")},
		},
		Forwards: []network.Forward{
			{Proto: "tcp", HostPort: 2222, Guest: netip.MustParseAddrPort("192.168.77.9:22")},
			{Proto: "udp", HostPort: 5353, Guest: netip.MustParseAddrPort("192.168.77.10:53")},
		},
	}
}

// TestNetworkConfig checks that every option arrives, ports and addresses the right way round.
func TestNetworkConfig(t *testing.T) {
	s := open(t, vmnetsim.Full)
	c := everything()
	n, err := s.NewNetwork(c)
	require.NoError(t, err)
	defer n.Release()
	o := s.owner(t)
	assert.True(t, o.Network)
	assert.Equal(t, uint32(1001), o.Mode)
	assert.Equal(t, c.Subnet, o.Subnet)
	assert.Equal(t, netip.MustParseAddr("192.168.77.1"), o.Start, "the host's address is what macOS is given, not the subnet's")
	assert.Equal(t, c.NAT66Prefix, o.Prefix6)
	assert.Equal(t, "en1", o.External)
	assert.Equal(t, 1400, o.MTU)
	assert.Equal(t, vmnetsim.NoNAT44|vmnetsim.NoNAT66|vmnetsim.NoDHCP|vmnetsim.NoDNSProxy|vmnetsim.NoRA, o.Flags)
	assert.ElementsMatch(t, []vmnetsim.Rule{
		{MAC: c.Reservations[0].MAC, Addr: c.Reservations[0].Addr},
		{Proto: 6, ExternalPort: 2222, InternalPort: 22, Addr: netip.MustParseAddr("192.168.77.9")},
		{Proto: 17, ExternalPort: 5353, InternalPort: 53, Addr: netip.MustParseAddr("192.168.77.10")},
	}, s.c.Rules())
	assert.Equal(t, c.Subnet, n.Subnet())
	assert.Equal(t, uint64(1), s.c.Calls()["CFRelease"], "the configuration is let go")

	i, err := n.Start(within(t), api.InterfaceConfig{})
	require.NoError(t, err)
	stopLater(t, i)
	assert.Equal(t, 1400, i.Params().MTU)
}

func TestNetworkDefaults(t *testing.T) {
	s := open(t, vmnetsim.Full)
	for mode, number := range map[network.Mode]uint32{network.ModeHost: 1000, network.ModeShared: 1001} {
		before := s.c.Calls()
		n, err := s.NewNetwork(api.NetworkConfig{Mode: mode})
		require.NoError(t, err)
		o := s.owner(t)
		assert.Equal(t, number, o.Mode)
		assert.Zero(t, o.Flags)
		assert.Equal(t, o.Subnet, n.Subnet())
		assert.Equal(t, 24, n.Subnet().Bits())
		n.Release()
		n.Release()
		assert.False(t, n.Subnet().IsValid(), "it was released")
		for call, count := range s.c.Calls() {
			if len(call) > 27 && call[:27] == "vmnet_network_configuration" && call != "vmnet_network_configuration_create" {
				assert.Equal(t, before[call], count, "%s: nothing was asked for", call)
			}
		}
	}
}

// TestNetworkOptionFails has each call on the configuration fail: no network, and nothing left.
func TestNetworkOptionFails(t *testing.T) {
	s := open(t, vmnetsim.Full)
	for name, sw := range map[string]vmnetsim.Switch{
		"vmnet_network_configuration_create":                   vmnetsim.ConfigCreateResult,
		"vmnet_network_configuration_set_external_interface":   vmnetsim.SetExternalResult,
		"vmnet_network_configuration_set_ipv4_subnet":          vmnetsim.SetSubnetResult,
		"vmnet_network_configuration_set_ipv6_prefix":          vmnetsim.SetPrefixResult,
		"vmnet_network_configuration_set_mtu":                  vmnetsim.SetMTUResult,
		"vmnet_network_configuration_add_dhcp_reservation":     vmnetsim.AddReservationResult,
		"vmnet_network_configuration_add_port_forwarding_rule": vmnetsim.AddForwardResult,
		"vmnet_network_create":                                 vmnetsim.NetworkCreateResult,
	} {
		for _, st := range statuses {
			s.c.Set(sw, int64(st), 1)
			_, err := s.NewNetwork(everything())
			isStatus(t, err, name, st)
			s.nothingLeft(t)
		}
	}
}

// TestInterfaceHoldsNetwork releases a network under its interfaces.
func TestInterfaceHoldsNetwork(t *testing.T) {
	s := open(t, vmnetsim.Full)
	n, err := s.NewNetwork(api.NetworkConfig{Mode: network.ModeHost})
	require.NoError(t, err)
	var ends []api.Interface
	for range 2 {
		i, err := n.Start(within(t), api.InterfaceConfig{})
		require.NoError(t, err)
		ends = append(ends, i)
	}
	n.Release()
	send(t, ends[0], numbered(1, 60))
	assert.Len(t, receive(t, ends[1]), 1)
	_, err = n.Start(within(t), api.InterfaceConfig{})
	require.ErrorContains(t, err, "the network was released")
	for _, i := range ends {
		require.NoError(t, i.Stop(within(t)))
	}
}

// TestReleaseUnderStart: a call to start that does not return has the network's reference, so it is not released under it when
// its caller has stopped waiting.
func TestReleaseUnderStart(t *testing.T) {
	s := open(t, vmnetsim.Full)
	n, err := s.NewNetwork(api.NetworkConfig{Mode: network.ModeShared})
	require.NoError(t, err)
	calling, resume := s.HoldNetworkStarts()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := n.Start(ctx, api.InterfaceConfig{})
		failed <- err
	}()
	<-calling
	cancel()
	require.ErrorIs(t, <-failed, api.ErrNoAnswer)
	n.Release()
	assert.EqualValues(t, 1, s.Gauges().Networks, "released under a call")
	assert.EqualValues(t, 1, s.c.Gauges().Networks, "released under a call")
	resume()
	// It starts after all, is stopped, and the network goes with it: see nothingLeft.
	s.kept = ffi.Gauges{}
}
