// SPDX-License-Identifier: Apache-2.0

//go:build !vmnetsim

package main

import (
	"runtime"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// resolveBackend is the back end that the command line asks for.
func resolveBackend(cfg *compat.Config) compat.Backend { return cfg.Backend.Resolve(runtime.GOOS) }
