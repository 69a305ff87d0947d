// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package main

import (
	"os"
	"path/filepath"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// simulatorEnv names the simulator's library for a run of these tests in which every daemon is on the simulated vmnet.
const simulatorEnv = "SOCKET_VMNET2_TEST_SIMULATOR"

// locallyEnv is set where all these daemons have local switching.
const locallyEnv = "SOCKET_VMNET2_TEST_LOCAL_SWITCHING"

func init() {
	lib := os.Getenv(simulatorEnv)
	if lib == "" {
		return
	}
	maxFrame = frame.MaxEthernetLen
	buildFlags = append(buildFlags, "-tags", "vmnetsim")
	locally = os.Getenv(locallyEnv) != ""
	backendArgs = func(sock string) []string {
		args := simulatorArgs(lib, filepath.Dir(sock)+"/vmnetsim")
		if locally {
			args = append(args, "--local-switching=on")
		}
		return args
	}
}

func simulatorArgs(lib, dir string) []string {
	return []string{"--backend=vmnet", "--vmnetsim-lib=" + lib, "--vmnetsim-dir=" + dir}
}
