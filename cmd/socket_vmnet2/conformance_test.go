// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"testing"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// maxFrame is the longest frame that one stream client of the daemons under test can send to another, in bytes.
var maxFrame = frame.MaxStreamLen

// TestConformance runs the suite that every network must pass through the socket of the built daemon.
func TestConformance(t *testing.T) {
	p := start(t, "--vmnet-gateway=192.168.105.1") // one for all checks, each with clients of its own
	vnettest.TestNetwork(t, func(*testing.T) network.Network {
		return vnettest.SocketNetwork(p.sock, netip.MustParseAddr("192.168.105.1"), maxFrame)
	})
}
