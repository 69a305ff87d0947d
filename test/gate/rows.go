// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// A row is one path through the daemon.
type row struct {
	key     string
	text    string
	daemon  string // kind of relay
	floor   string // the C program that it is held against
	clients string // kinds of sender and receiver
	batch   int    // frames per write of the sender
	frame   int    // bytes
	wakes   bool   // a frame may cost a wake-up, or part of one
	proven  bool   // the slow daemon is measured in this row
}

const (
	ethernetFrame = 1514 // bytes
	smallFrame    = 64
)

// rows are all of them. The paths of datagram clients differ by direction: by path, one way is through a shared socket.
//
// What goes to an unconnected path is not among them. Linux lets 11 datagrams wait there, so it depends on how soon the receiver gets its
// turn how often the daemon has to wait, and that costs it more than it costs C: 1.3 times the C program's time on a quiet machine,
// 1.9 times on a busy one, with the same daemon. The code is that of to-passed.
var rows = []row{
	{key: "stream", text: "stream > stream, 64 frames a write", clients: "ss", batch: rig.BatchFrames, frame: ethernetFrame, proven: true},
	{key: "stream-single", text: "stream > stream, a frame a write", clients: "ss", batch: 1, frame: ethernetFrame, wakes: true},
	{key: "stream-small", text: "stream > stream, 64 frames of 64 bytes a write", clients: "ss", batch: rig.BatchFrames, frame: smallFrame},
	{key: "to-passed", text: "stream > passed datagram socket", clients: "sd", batch: rig.BatchFrames, frame: ethernetFrame, wakes: true},
	{key: "from-passed", text: "passed datagram socket > stream", clients: "ds", batch: rig.BatchFrames, frame: ethernetFrame, wakes: true},
	{key: "passed", text: "2 passed datagram sockets", clients: "dd", batch: rig.BatchFrames, frame: ethernetFrame, wakes: true},
	{key: "from-path", text: "path, unconnected > stream", clients: "us", batch: rig.BatchFrames, frame: ethernetFrame, wakes: true},
	{key: "to-connected", text: "stream > path, connected", clients: "sc", batch: rig.BatchFrames, frame: ethernetFrame, wakes: true},
	{key: "from-connected", text: "path, connected > stream", clients: "cs", batch: rig.BatchFrames, frame: ethernetFrame, wakes: true},
	{key: "vmnet", text: "2 clients on simulated vmnet", daemon: rounds.DaemonVmnet, floor: rounds.VmnetC, clients: "ss", batch: rig.BatchFrames, frame: ethernetFrame, wakes: true},
	{key: "vmnet-single", text: "the same, a frame a write", daemon: rounds.DaemonVmnet, floor: rounds.VmnetC, clients: "ss", batch: 1, frame: ethernetFrame, wakes: true},
}

func init() {
	for i := range rows {
		if rows[i].daemon == "" {
			rows[i].daemon, rows[i].floor = rounds.Daemon, rounds.Floor
		}
	}
}

const (
	// slotTime is short, so that one is left alone now and then by what else the machine does, and long against the time that
	// frames are under way.
	slotTime = 40 * time.Millisecond
	slots    = 6 // of a measurement
	warmTime = 50 * time.Millisecond

	// minFrames is how many frames a slot needs. There are 256 under way at most, whose cost may be in one slot and their arrival in
	// another.
	minFrames = 1000
)

// load is what the row's clients do.
func (r row) load() rig.Load {
	return rig.Load{Clients: 2, Pairs: 1, Kinds: r.clients, Batch: r.batch, Frame: r.frame, Time: slots * slotTime, Slots: slots, Warm: warmTime}
}

func keys() []string {
	var all []string
	for _, r := range rows {
		all = append(all, r.key)
	}
	return all
}

// slowDaemon is the kind of the daemon that was made slower.
const slowDaemon = "daemon-slow"

// slowness is what is wrong with it: the bridge sums up an eighth of the bytes of each frame for nothing. On the machine of the baselines
// a full Ethernet frame takes about twice the time between streams with that: enough to be found out whatever the machine's mood.
var slowness = rig.Change{
	File: "internal/bridge/send.go",
	Old:  "func (p *Port) Send(b frame.Batch) {\n",
	New: `var wasted uint32

func (p *Port) Send(b frame.Batch) {
	sum := wasted
	for wire, i := b.Bytes(), 0; i < len(wire); i += 8 {
		sum = sum*31 + uint32(wire[i])
	}
	wasted = sum
`,
}

// kinds are the kinds of relays that package rig does not know.
func kinds() []rig.Kind {
	return []rig.Kind{
		{Name: slowDaemon, Prepare: buildSlow, Command: rig.Usernet(slowProgram)},
		{Name: rounds.VmnetC, Prepare: buildVmnetC, Command: func(r *rig.Rig, l *rig.Relay) (*exec.Cmd, error) {
			return exec.Command(vmnetCProgram(r), r.SimLib(), l.Socket), nil
		}},
	}
}

func slowProgram(r *rig.Rig) string { return filepath.Join(r.Dir(), "slow", "socket_vmnet2") }

func buildSlow(ctx context.Context, r *rig.Rig) error {
	return r.BuildChanged(ctx, slowProgram(r), "cmd/socket_vmnet2", slowness)
}

func vmnetCProgram(r *rig.Rig) string { return filepath.Join(r.Dir(), "vmnetc") }

func buildVmnetC(ctx context.Context, r *rig.Rig) error {
	if err := rig.BuildSimulated(ctx, r); err != nil {
		return err
	}
	return r.Compile(ctx, vmnetCProgram(r), []string{"-I" + filepath.Dir(r.SimLib())}, "vmnetc.c", "vmnetlib.c", "wire.c")
}
