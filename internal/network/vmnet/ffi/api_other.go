// SPDX-License-Identifier: Apache-2.0

//go:build !darwin && !vmnetsim

package ffi

import "github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"

// An API is what Open returns on macOS.
type API struct{ api.API }
