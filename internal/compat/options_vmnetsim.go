// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package compat

import "errors"

// buildOptions are for tests: they put a simulator in the place of vmnet.framework.
var buildOptions = []option{
	{name: "vmnetsim-lib", arg: "PATH", help: "the library to load in place of vmnet.framework", set: setSimulatorLib, atOnce: true},
	{name: "vmnetsim-dir", arg: "DIR", help: "what the simulator shares with other processes\nneeds --vmnetsim-lib", set: setSimulatorDir, atOnce: true},
}

// buildConfig is what buildOptions fill in.
type buildConfig struct {
	Simulator Simulator
}

// A Simulator stands in for vmnet.framework. Both fields are empty without one.
type Simulator struct {
	Lib string // path of the library
	Dir string // directory it shares with other processes; empty: it keeps everything to itself
}

func setSimulatorLib(s *settings, v string) error {
	if v == "" {
		return errors.New("--vmnetsim-lib is empty: give the path of the simulator")
	}
	s.Simulator.Lib = v
	return nil
}

func setSimulatorDir(s *settings, v string) error {
	if v == "" {
		return errors.New("--vmnetsim-dir is empty: give a directory")
	}
	s.Simulator.Dir = v
	return nil
}

// checkBuild checks what buildOptions filled in.
func (s *settings) checkBuild() error {
	if s.Simulator.Dir != "" && s.Simulator.Lib == "" {
		return errors.New("--vmnetsim-dir=DIR requires --vmnetsim-lib=PATH")
	}
	return nil
}
