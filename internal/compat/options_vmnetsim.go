// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package compat

import "github.com/urfave/cli/v2"

// The flags are for tests: they put a simulator in the place of vmnet.framework. No text tells of them.
func init() {
	buildFlags = func(s *settings) []cli.Flag {
		lib := named("vmnetsim-lib", "`PATH` the library to load in place of vmnet.framework", "the path of the simulator", &s.Simulator.Lib)
		dir := named("vmnetsim-dir", "`DIR` what the simulator shares with other processes, needs --vmnetsim-lib", "a directory", &s.Simulator.Dir)
		lib.Hidden, dir.Hidden = true, true
		return []cli.Flag{lib, dir}
	}
}
