// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// madeUpParams checks what API.MadeUpParams gives.
func madeUpParams(t *testing.T, p api.Params) {
	assert.Equal(t, []api.Entry{
		{Key: "a list", Value: "(unknown type)"},
		{Key: "bool", Value: true},
		{Key: "int64", Value: int64(-5)},
		{Key: "no", Value: false},
		{Key: "string", Value: "text with 汉字"},
		{Key: "uint64", Value: uint64(1<<64 - 1)},
		{Key: "uuid", Value: "00112233-4455-6677-8899-AABBCCDDEEFF"},
		{Key: "vmnet_mac_address", Value: "not one"},
		{Key: "vmnet_max_packet_size", Value: "a text"},
		{Key: "vmnet_mtu", Value: uint64(1 << 40)},
		{Key: "vmnet_start_address", Value: "300.1.2.3"},
	}, p.Entries)
	assert.Nil(t, p.MAC)
	assert.Zero(t, p.MaxPacket, "of another type")
	assert.Equal(t, 1<<31-1, p.MTU, "too large for anything")
	assert.False(t, p.Start.IsValid())
}
