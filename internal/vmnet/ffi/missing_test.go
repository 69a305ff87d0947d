// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim && !darwin

package ffi_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// TestMissingParts asks for what a macOS does not have, and for the same without it.
func TestMissingParts(t *testing.T) {
	s := open(t, vmnetsim.Full)
	a, err := s.Older()
	require.NoError(t, err)
	assert.False(t, a.Features().Forwards)

	i, err := a.Start(within(t), shared)
	require.NoError(t, err, "no isolation and no offload is what it has")
	stopLater(t, i)
	err = i.Forward(within(t), vnet.Forward{Proto: "tcp", HostPort: 2222, Guest: netip.MustParseAddrPort("192.168.64.7:22")})
	missing(t, err, "vmnet_interface_add_ip_port_forwarding_rule", "macOS 11")

	before := s.c.Calls()
	for key, c := range map[string]api.InterfaceConfig{
		"vmnet_enable_isolation_key":   {Mode: vnet.ModeShared, Isolate: true},
		"vmnet_enable_tso_key":         {Mode: vnet.ModeShared, Offload: true},
		"vmnet_network_identifier_key": {Mode: vnet.ModeHost, NetworkID: [16]byte{1}},
	} {
		_, err := a.Start(within(t), c)
		missing(t, err, key, "macOS 11")
	}
	for function, c := range map[string]api.NetworkConfig{
		"vmnet_network_configuration_set_mtu":                      {Mode: vnet.ModeShared, MTU: 1400},
		"vmnet_network_configuration_disable_router_advertisement": {Mode: vnet.ModeShared, DisableRA: true},
	} {
		_, err := a.NewNetwork(c)
		missing(t, err, function, "macOS 26")
	}
	assert.Equal(t, before, s.c.Calls(), "found out before anything is made")

	n, err := a.NewNetwork(api.NetworkConfig{Mode: vnet.ModeShared, DisableDHCP: true})
	require.NoError(t, err)
	assert.True(t, n.Subnet().IsValid())
	assert.False(t, n.Prefix6().IsValid())
	n.Release()
}

func missing(t *testing.T, err error, name, since string) {
	t.Helper()
	require.ErrorIs(t, err, api.ErrMissing)
	assert.ErrorContains(t, err, name)
	assert.ErrorContains(t, err, since)
}
