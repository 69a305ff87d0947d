// SPDX-License-Identifier: Apache-2.0

//go:build darwin && !vmnetsim

package main

import (
	"log/slog"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/ffi"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// openFramework loads vmnet.framework.
func openFramework(*compat.Config) (api.API, error) { return ffi.Open() }

// startHost has nothing to do: macOS is the host.
func startHost(*compat.Config, api.API, vnet.NetworkInfo, *slog.Logger) (func(), error) {
	return nil, nil
}
