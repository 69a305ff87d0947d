// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"testing"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/bridge"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// bare is the least that makes a network.Network of a bridge.
type bare struct{ *bridge.Bridge }

type barePort struct{ *bridge.Port }

func (n bare) Attach(_ context.Context, o network.PortOptions, sink frame.Sink) (network.Port, error) {
	p, err := n.Bridge.Attach(bridge.PortOptions{Name: o.Name}, sink)
	if err != nil {
		return nil, err
	}
	return barePort{p}, nil
}

func (bare) Info() network.Info {
	return network.Info{Backend: "bridge", Mode: network.ModeHost, MTU: 1500, MaxFrame: frame.MaxLen}
}

func (barePort) Info() network.PortInfo { return network.PortInfo{MTU: 1500, MaxFrame: frame.MaxLen} }

// TestConformance runs the conformance suite on a bridge without a gateway.
func TestConformance(t *testing.T) {
	vnettest.TestNetwork(t, func(*testing.T) network.Network { return bare{bridge.New(bridge.Options{})} })
}
