// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"testing"

	"github.com/socket-vmnet2/socket_vmnet2/internal/bridge"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnettest"
)

// bare is the least that makes a vnet.Network of a bridge.
type bare struct{ *bridge.Bridge }

type barePort struct{ *bridge.Port }

func (n bare) Attach(_ context.Context, o vnet.PortOptions, sink frame.Sink) (vnet.Port, error) {
	p, err := n.Bridge.Attach(bridge.PortOptions{Name: o.Name}, sink)
	if err != nil {
		return nil, err
	}
	return barePort{p}, nil
}

func (bare) Info() vnet.NetworkInfo {
	return vnet.NetworkInfo{Backend: "bridge", Mode: vnet.ModeHost, MTU: 1500, MaxFrame: frame.MaxLen}
}

func (barePort) Info() vnet.PortInfo { return vnet.PortInfo{MTU: 1500, MaxFrame: frame.MaxLen} }

// TestConformance runs the conformance suite on a bridge without a gateway.
func TestConformance(t *testing.T) {
	vnettest.TestNetwork(t, func(*testing.T) vnet.Network { return bare{bridge.New(bridge.Options{})} })
}
