// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim && !darwin

package ffi_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

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
