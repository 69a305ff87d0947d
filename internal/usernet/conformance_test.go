// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnettest"
)

func TestConformance(t *testing.T) {
	vnettest.TestNetwork(t, func(t *testing.T) vnet.Network {
		n, err := New(Options{Mode: vnet.ModeShared})
		require.NoError(t, err)
		return n
	})
}
