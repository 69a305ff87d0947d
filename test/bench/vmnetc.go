// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os/exec"
	"path/filepath"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// vmnetCLimit is how much CPU time the daemon may take for a frame, in that of the C program.
const vmnetCLimit = 1.5

// vmnetC is rig/csrc/vmnetc.c: what the daemon is held against where its clients have interfaces of a simulated vmnet. Both
// have the simulator in their own process. The set-ups of the daemon are among the basic ones.
func vmnetC() part {
	kind := rig.Kind{Name: rounds.VmnetC, Prepare: buildVmnetC, Command: func(r *rig.Rig, l *rig.Relay) (*exec.Cmd, error) {
		return exec.Command(vmnetCProgram(r), r.SimLib(), l.Socket), nil
	}}
	const c = rounds.VmnetC
	small := func(relay string) setup {
		s := sized(relay, rig.Stream+rig.Stream, frameSizes[0])
		s.series = []string{seriesVmnet}
		return s
	}
	return part{
		kinds: []rig.Kind{kind},
		setups: []setup{
			flow(seriesPair, c, 2, 1, rig.BatchFrames),
			flow(seriesPair, c, 2, 1, 1),
			small(c),
			small(rounds.DaemonVmnet),
			echo(seriesVmnet, c, 2),
		},
		rows: []row{
			{key: "vmnet-c", text: "2 clients on simulated vmnet / C", subject: "vmnet 2 batch", base: "vmnet-c 2 batch", most: vmnetCLimit},
			{key: "vmnet-c-single", text: "the same, a frame a write", subject: "vmnet 2 single", base: "vmnet-c 2 single", most: vmnetCLimit},
			{key: "vmnet-c-small", text: "64 in a write, of 64 bytes", subject: "vmnet ss 64", base: "vmnet-c ss 64", most: vmnetCLimit},
			{key: "vmnet-c-rtt", text: "idle round trip p50 / C", subject: "vmnet echo", base: "vmnet-c echo", latency: true},
		},
	}
}

func vmnetCProgram(r *rig.Rig) string { return filepath.Join(r.Dir(), "vmnetc") }

func buildVmnetC(ctx context.Context, r *rig.Rig) error {
	if err := rig.BuildSimulated(ctx, r); err != nil {
		return err
	}
	return r.Compile(ctx, vmnetCProgram(r), []string{"-I" + filepath.Dir(r.SimLib())}, "vmnetc.c", "vmnetlib.c", "wire.c")
}
