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

func init() {
	lib := os.Getenv(simulatorEnv)
	if lib == "" {
		return
	}
	maxFrame = frame.MaxEthernetLen
	buildFlags = append(buildFlags, "-tags", "vmnetsim")
	backendArgs = func(sock string) []string {
		return simulatorArgs(lib, filepath.Dir(sock)+"/vmnetsim")
	}
}

func simulatorArgs(lib, dir string) []string {
	return []string{"--backend=vmnet", "--vmnetsim-lib=" + lib, "--vmnetsim-dir=" + dir}
}
