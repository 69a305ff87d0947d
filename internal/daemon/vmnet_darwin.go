// SPDX-License-Identifier: Apache-2.0

//go:build darwin && !vmnetsim

package daemon

import (
	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi"
)

// openFramework loads vmnet.framework.
func openFramework(*compat.Config) (api.API, error) { return ffi.Open() }
