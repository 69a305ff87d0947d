// SPDX-License-Identifier: Apache-2.0

package ffi_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi"
)

// TestFramework opens the real thing. It needs no rights: nothing is started. Real XPC calling a block of ours shows that
// hand-made global blocks with functions in assembly work on this machine.
func TestFramework(t *testing.T) {
	a, err := ffi.Open()
	require.NoError(t, err)
	names, err := a.SharedInterfaces()
	require.NoError(t, err)
	t.Logf("interfaces for bridged mode: %v", names)
	if len(names) > 0 {
		madeUpParams(t, a.MadeUpParams())
	}
	if !a.Features().Networks {
		_, err = a.NewNetwork(api.NetworkConfig{Mode: network.ModeShared})
		require.ErrorIs(t, err, api.ErrMissing)
	}
	assert.Equal(t, ffi.Gauges{}, a.Gauges())
}
