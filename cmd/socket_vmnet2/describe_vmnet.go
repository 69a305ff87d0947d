// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package main

import (
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// vmnetStatus is what only a vmnet network tells, nil of any other.
func vmnetStatus(n vnet.Network) *status.Vmnet {
	s, ok := statusOf(n)
	if !ok {
		return nil
	}
	v := &status.Vmnet{
		API: s.API, Why: s.Why, InterfaceID: s.Anchor.InterfaceID, Own: s.Own, Shared: s.Shared, Starts: s.Starts,
		StartFailures: s.StartFailures, Restarts: s.Restarts, Promoted: s.Promoted, Exhausted: s.Exhausted,
	}
	if s.LastFailure != nil {
		v.LastFailure = s.LastFailure.Error()
	}
	return v
}
