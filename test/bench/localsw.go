// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// localSwitching is the daemon on the simulated vmnet with --local-switching=on, where frames between two clients do not pass
// the simulator, and the rows that hold it against the same daemon without, and against the floor.
func localSwitching() part {
	const local = rounds.DaemonLocal
	pair := func(batch int) rig.Load { return rig.Load{Clients: 2, Pairs: 1, Batch: batch} }
	echo := rig.Load{Clients: 2, Pairs: 1, Batch: 1, Echo: true}
	return part{
		kinds: []rig.Kind{{
			Name: local, Prepare: rig.BuildSimulated,
			Command: rig.Simulated("--vmnet-gateway=192.168.105.1", "--local-switching=on"),
		}},
		setups: []setup{
			{name: "local 2 batch", series: []string{"pair"}, relay: local, load: pair(rig.BatchFrames)},
			{name: "local 2 single", series: []string{"pair"}, relay: local, load: pair(1)},
			{name: "local echo", series: []string{"latency"}, relay: local, load: echo, parts: echoParts},
			{
				name: "local echo busy", series: []string{"latency"}, relay: local, parts: echoParts,
				load: rig.Load{Clients: 4, Pairs: 2, Batch: rig.BatchFrames, Echo: true},
			},
		},
		rows: []row{
			{key: "local", text: "2 clients, local switching / vmnet's way", subject: "local 2 batch", base: "vmnet 2 batch", cpu: true},
			{key: "local-single", text: "the same, a frame a write", subject: "local 2 single", base: "vmnet 2 single", cpu: true},
			{key: "local-floor", text: "2 clients, local switching / floor", subject: "local 2 batch", base: "floor 2 batch", cpu: true},
			{key: "local-rtt", text: "idle round trip p50, local / vmnet's way", subject: "local echo", base: "vmnet echo", latency: true},
		},
	}
}
