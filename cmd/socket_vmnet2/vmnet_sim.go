// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package main

import (
	"errors"
	"os"
	"runtime"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/ffi"
)

// resolveBackend takes vmnet wherever there is a simulator of it.
func resolveBackend(cfg *compat.Config) compat.Backend {
	if cfg.Backend == compat.BackendAuto && cfg.Simulator.Lib != "" {
		return compat.BackendVmnet
	}
	return cfg.Backend.Resolve(runtime.GOOS)
}

// openFramework loads the simulator, whose host answers as macOS does.
func openFramework(cfg *compat.Config) (api.API, error) {
	if cfg.Simulator.Lib == "" {
		return nil, errors.New("this build is for tests: name the simulator with --vmnetsim-lib=FILE")
	}
	if cfg.Simulator.Dir != "" {
		if err := os.MkdirAll(cfg.Simulator.Dir, 0o700); err != nil {
			return nil, err
		}
	}
	a, err := ffi.OpenSimulator(cfg.Simulator.Lib, cfg.Simulator.Dir)
	if err != nil {
		return nil, err
	}
	return a, a.Answer()
}
