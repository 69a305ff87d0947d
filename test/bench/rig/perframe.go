// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"path/filepath"
)

// What is different in the daemon that moves a datagram with each system call: a constant of package mmsg. Everything else is
// compiled from the same sources, so that the comparison shows what batches are worth and nothing else.
var perFrameChange = Change{
	File: "internal/mmsg/mmsg.go",
	Old:  "BatchLen = 32",
	New:  "BatchLen = 1",
}

// buildPerFrame builds that daemon.
func buildPerFrame(ctx context.Context, r *Rig) error {
	r.opt.Progress("building a daemon that moves a datagram with each system call")
	return r.BuildChanged(ctx, r.perFrame(), "cmd/socket_vmnet2", perFrameChange)
}

// perFrame is that daemon's path. By its name it takes all options.
func (r *Rig) perFrame() string { return filepath.Join(r.dir, "perframe", "socket_vmnet2") }
