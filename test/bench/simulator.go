// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// module is where the programs for the simulator are.
const module = "github.com/socket-vmnet2/socket_vmnet2"

// A simulated is what the rows about vmnet need: the simulator, and programs that can load it.
type simulated struct {
	lib     string // the simulator of vmnet.framework
	nothing string // the same with a vmnet_read and a vmnet_write that do nothing
	daemon  string // built so that it can load the simulator
	callsC  string // csrc/vmnetcalls.c
	callsGo string // vmnetcalls
	vmnetC  string // csrc/vmnetc.c
}

// wantsSimulator tells whether one of the rows of only is about vmnet.
func wantsSimulator(only []string) bool {
	return wantsCalls(only) || wanted(keyIdle, only) || wantsRelay(relayVmnet, only) || wantsRelay(relayVmnetC, only)
}

// buildSimulated builds them.
func (b *bench) buildSimulated(ctx context.Context) error {
	progress("building the simulator of vmnet.framework and what can load it")
	lib, err := vmnetsim.Build(ctx, vmnetsim.Full)
	if err != nil {
		return err
	}
	b.sim = simulated{
		lib:     lib,
		nothing: filepath.Join(b.dir, "libnothing.so"),
		daemon:  filepath.Join(b.dir, "sim", "socket_vmnet2"), // by this name it takes all options
		callsC:  filepath.Join(b.dir, "vmnetcalls-c"),
		callsGo: filepath.Join(b.dir, "vmnetcalls-go"),
	}
	abi := "-I" + filepath.Dir(lib)
	return errors.Join(
		b.compile(ctx, b.sim.callsC, []string{abi}, "vmnetcalls.c", "vmnetlib.c"),
		b.compile(ctx, b.sim.nothing, []string{abi, "-fPIC", "-shared", "-Wl,--no-as-needed", lib}, "nullcalls.c"),
		b.buildVmnetC(ctx, abi),
		buildTagged(ctx, b.sim.callsGo, "test/bench/vmnetcalls"),
		buildTagged(ctx, b.sim.daemon, "cmd/socket_vmnet2"),
	)
}

// buildTagged builds a program of ours that may load the simulator, otherwise as it is released.
func buildTagged(ctx context.Context, out, pkg string) error {
	return build(ctx, out, pkg, "-tags=vmnetsim")
}

// build builds a program of ours with more flags than a release has.
func build(ctx context.Context, out, pkg string, flags ...string) error {
	args := append([]string{"build", "-o", out}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, module+"/"+pkg)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", pkg, err, msg)
	}
	return nil
}
