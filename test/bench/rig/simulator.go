// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"path/filepath"

	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// BuildSimulated builds the simulator of vmnet.framework and a daemon that can load it, otherwise as it is released. It is the
// Prepare of a Kind, and does nothing when both are there.
func BuildSimulated(ctx context.Context, r *Rig) error {
	if r.simLib != "" {
		return nil
	}
	r.opt.Progress("building the simulator of vmnet.framework and a daemon that can load it")
	if err := r.BuildTagged(ctx, r.DaemonSim(), "cmd/socket_vmnet2"); err != nil {
		return err
	}
	lib, err := vmnetsim.Build(ctx, vmnetsim.Full)
	r.simLib = lib
	return err
}

// SimLib is the path of the simulator, once BuildSimulated has returned.
func (r *Rig) SimLib() string { return r.simLib }

// DaemonSim is the path of the daemon that can load the simulator, once BuildSimulated has returned. By its name it takes all
// options.
func (r *Rig) DaemonSim() string { return filepath.Join(r.dir, "sim", "socket_vmnet2") }

// BuildTagged builds a program of ours that may load the simulator, otherwise as it is released.
func (r *Rig) BuildTagged(ctx context.Context, out, pkg string) error {
	return r.Build(ctx, out, pkg, "-tags=vmnetsim")
}
