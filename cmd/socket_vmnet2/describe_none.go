// SPDX-License-Identifier: Apache-2.0

//go:build !darwin && !vmnetsim

package main

import (
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// vmnetStatus is nil: there is no vmnet.
func vmnetStatus(vnet.Network) *status.Vmnet { return nil }
