// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package main

import (
	"fmt"

	"github.com/socket-vmnet2/socket_vmnet2/internal/selftest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// statusOf is what n tells of its interfaces, false when it is no vmnet network.
func statusOf(n vnet.Network) (vmnet.Status, bool) {
	if s, ok := n.(withState); ok {
		n = s.Network
	}
	v, ok := n.(interface{ Status() vmnet.Status })
	if !ok {
		return vmnet.Status{}, false
	}
	return v.Status(), true
}

// describeVmnet tells which way a vmnet network was made, and what macOS said of its first interface.
func describeVmnet(n vnet.Network) selftest.Facts {
	s, ok := statusOf(n)
	if !ok {
		return nil
	}
	facts := selftest.Facts{{Name: "api", Value: s.API}, {Name: "api_why", Value: s.Why}}
	for _, e := range s.Anchor.Entries {
		facts = append(facts, selftest.Fact{Name: e.Key, Value: fmt.Sprint(e.Value)})
	}
	return facts
}

// vmnetSharing is how many clients have no interface of their own, and why the last one could not be started.
func vmnetSharing(n vnet.Network) (int, error) {
	s, _ := statusOf(n)
	return s.Shared, s.LastFailure
}
