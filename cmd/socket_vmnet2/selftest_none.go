// SPDX-License-Identifier: Apache-2.0

//go:build !darwin && !vmnetsim

package main

import (
	"github.com/socket-vmnet2/socket_vmnet2/internal/selftest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// Without vmnet there is nothing to tell of it.
func describeVmnet(vnet.Network) selftest.Facts { return nil }

func vmnetSharing(vnet.Network) (int, error) { return 0, nil }
