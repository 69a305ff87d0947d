// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/machrun"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// onMac is the program for macOS under test/machrun, on the same simulated vmnet as the one for Linux: what only the former does
// (kqueue in place of epoll, libSystem in place of system calls) is seen in its CPU time for a frame. There is no target, since
// the loader's own work is in the figure.
func onMac() part {
	const mac = rounds.DaemonMachrun
	unfiled := func(s setup) setup { // in the table, in no plot
		s.series = nil
		return s
	}
	return part{
		kinds: []rig.Kind{{Name: mac, Prepare: buildMac, Command: macCommand}},
		setups: []setup{
			unfiled(flow("", mac, 2, 1, rig.BatchFrames)),
			unfiled(flow("", mac, 2, 1, 1)),
			unfiled(echo("", mac, 2)),
		},
		rows: []row{
			{key: "mac", text: "the macOS program on simulated vmnet / Linux's", subject: "mac 2 batch", base: "vmnet 2 batch", cpu: true},
			{key: "mac-single", text: "the same, a frame a write", subject: "mac 2 single", base: "vmnet 2 single", cpu: true},
			{key: "mac-rtt", text: "idle round trip p50, macOS program / Linux's", subject: "mac echo", base: "vmnet echo", latency: true},
		},
	}
}

// macDaemon is the path of the program for macOS. By its name it takes all options.
func macDaemon(r *rig.Rig) string { return filepath.Join(r.Dir(), "mac", "socket_vmnet2") }

// buildMac builds the program for macOS and what runs it here.
func buildMac(ctx context.Context, r *rig.Rig) error {
	if err := rig.BuildSimulated(ctx, r); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", macDaemon(r), "github.com/socket-vmnet2/socket_vmnet2/cmd/socket_vmnet2")
	cmd.Env = append(os.Environ(), "GOOS=darwin", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program for macOS: %w: %s", err, text)
	}
	_, err := machrun.Build(ctx)
	return err
}

// macCommand runs it with the simulator as vmnet.framework.
func macCommand(r *rig.Rig, l *rig.Relay) (*exec.Cmd, error) {
	loader, err := machrun.Build(context.Background()) // it is there
	if err != nil {
		return nil, err
	}
	if l.Control, err = os.MkdirTemp(r.Dir(), "control"); err != nil {
		return nil, fmt.Errorf("make a directory for the simulator: %w", err)
	}
	args := append([]string{macDaemon(r)}, r.DaemonArgs()...)
	cmd := exec.Command(loader, append(args, "--vmnet-gateway=192.168.105.1", l.Socket)...)
	cmd.Env = append(os.Environ(), "MACHRUN_VMNET="+r.SimLib(), "MACHRUN_VMNET_DIR="+l.Control)
	return cmd, nil
}
