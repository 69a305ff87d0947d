// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// A Kind is a kind of relay: a program that serves clients on the stream socket, and perhaps by the other transports.
type Kind struct {
	Name    string                                    // one of package rounds, or one's own
	Prepare func(ctx context.Context, r *Rig) error   // builds what Command needs; nil: nothing
	Command func(r *Rig, l *Relay) (*exec.Cmd, error) // the program, which is to serve l.Socket
}

// The kinds that have no name in package rounds: variations that only some rows of the benchmark are about.
const (
	DaemonBridged  = "daemon-bridged"   // the daemon in bridged mode on the simulated vmnet, without a simulated host
	DaemonPerFrame = "daemon-per-frame" // the daemon that moves a datagram with each system call, see perframe.go
	FloorPerFrame  = "floor-per-frame"  // the floor that does
)

// ownKinds are those that the package knows.
func ownKinds() []Kind {
	return []Kind{
		{Name: rounds.Daemon, Command: Usernet(func(r *Rig) string { return r.opt.Daemon })},
		{Name: DaemonPerFrame, Prepare: buildPerFrame, Command: Usernet((*Rig).perFrame)},
		{Name: rounds.DaemonVmnet, Prepare: BuildSimulated, Command: Simulated("--vmnet-gateway=" + gateway)},
		{Name: DaemonBridged, Prepare: BuildSimulated, Command: Simulated("--vmnet-mode=bridged", "--vmnet-interface=en0")},
		{Name: rounds.Floor, Command: inC("switch")},
		{Name: FloorPerFrame, Command: inC("frame")},
		{Name: rounds.Blind, Command: inC("copy")},
		{Name: rounds.Old, Command: inC("flood")},
	}
}

// gateway is the daemon's address on its network.
const gateway = "192.168.105.1"

// inC is csrc/relay.c in a mode.
func inC(mode string) func(*Rig, *Relay) (*exec.Cmd, error) {
	return func(r *Rig, l *Relay) (*exec.Cmd, error) { return exec.Command(r.relays, mode, l.Socket), nil }
}

// Usernet is the Command of a Kind: a daemon with the embedded network. program is its path, which ends in socket_vmnet2, for the
// daemon to take all options.
func Usernet(program func(*Rig) string) func(*Rig, *Relay) (*exec.Cmd, error) {
	return func(r *Rig, l *Relay) (*exec.Cmd, error) {
		args := append(r.DaemonArgs(), "--backend=usernet", "--vmnet-gateway="+gateway, l.Socket)
		return exec.Command(program(r), args...), nil
	}
}

// Simulated is the Command of a Kind: the daemon with interfaces of the simulated vmnet and these flags. Its Prepare is
// BuildSimulated with DaemonSim.
func Simulated(flags ...string) func(*Rig, *Relay) (*exec.Cmd, error) {
	return func(r *Rig, l *Relay) (*exec.Cmd, error) {
		var err error
		if l.Control, err = os.MkdirTemp(r.dir, "control"); err != nil {
			return nil, fmt.Errorf("make a directory for the simulator: %w", err)
		}
		args := append(r.DaemonArgs(), flags...)
		args = append(args, "--backend=vmnet", "--vmnetsim-lib="+r.SimLib(), "--vmnetsim-dir="+l.Control, l.Socket)
		return exec.Command(r.DaemonSim(), args...), nil
	}
}

// DaemonArgs are the flags that the daemon has in any case.
func (r *Rig) DaemonArgs() []string {
	args := append([]string{"--state-dir=" + r.dir}, r.opt.Args...)
	if os.Geteuid() == 0 {
		args = append(args, "--allow-uid=0") // of the load generator
	}
	return args
}
