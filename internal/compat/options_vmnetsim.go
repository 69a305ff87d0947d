// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package compat

import (
	"errors"

	"github.com/urfave/cli/v2"
)

// buildFlags are for tests: they put a simulator in the place of vmnet.framework. No text tells of them.
func (s *settings) buildFlags() []cli.Flag {
	lib := named("vmnetsim-lib", "`PATH` the library to load in place of vmnet.framework", "the path of the simulator", &s.Simulator.Lib)
	dir := named("vmnetsim-dir", "`DIR` what the simulator shares with other processes, needs --vmnetsim-lib", "a directory", &s.Simulator.Dir)
	lib.Hidden, dir.Hidden = true, true
	return []cli.Flag{lib, dir}
}

// buildConfig is what buildFlags fill in.
type buildConfig struct {
	Simulator simulator
}

// A simulator stands in for vmnet.framework. Both fields are empty without one.
type simulator struct {
	Lib string // path of the library
	Dir string // directory it shares with other processes; empty: it keeps everything to itself
}

// checkBuild checks what buildFlags filled in.
func (s *settings) checkBuild() error {
	if s.Simulator.Dir != "" && s.Simulator.Lib == "" {
		return errors.New("--vmnetsim-dir=DIR requires --vmnetsim-lib=PATH")
	}
	return nil
}
