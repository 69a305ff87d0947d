// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package daemon

import (
	"errors"
	"os"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi"
)

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
