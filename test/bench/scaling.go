// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

const (
	mostPairs    = 32 // active at once
	mostOldPairs = 8  // through the old way, which does little with more
	mostClients  = 64
)

// scaling is one active pair among idle clients, and many active pairs.
func scaling() part {
	var all []setup
	for clients := 2; clients <= mostClients; clients *= 2 {
		for _, batch := range []int{1, rig.BatchFrames} {
			all = append(all,
				flow(seriesIdlers, rounds.Daemon, clients, 1, batch),
				flow(seriesIdlers, rounds.Old, clients, 1, batch))
		}
	}
	for pairs := 1; pairs <= mostPairs; pairs *= 2 {
		all = append(all,
			flow(seriesActive, rounds.Floor, 2*pairs, pairs, rig.BatchFrames),
			flow(seriesActive, rounds.Daemon, 2*pairs, pairs, rig.BatchFrames))
		if pairs <= mostOldPairs {
			all = append(all, flow(seriesActive, rounds.Old, 2*pairs, pairs, rig.BatchFrames))
		}
	}
	return part{setups: all, rows: scalingRows()}
}

func scalingRows() []row {
	return []row{
		{key: "old2-single", text: "2 clients / old way, a frame a write", subject: "daemon 2 single", base: "old 2 single", target: 2.5},
		{key: "old8-single", text: "8 clients / old way, a frame a write", subject: "daemon 8 single", base: "old 8 single", target: 10},
		{key: "old64-single", text: "64 clients / old way, a frame a write", subject: "daemon 64 single", base: "old 64 single", target: 80},
		{key: "old2", text: "2 clients / old way, batching", subject: "daemon 2 batch", base: "old 2 batch", target: 5},
		{key: "old8", text: "8 clients / old way, batching", subject: "daemon 8 batch", base: "old 8 batch", target: 35},
		{key: "old64", text: "64 clients / old way, batching", subject: "daemon 64 batch", base: "old 64 batch", target: 300},
		{key: "idle62", text: "a pair among 62 idle / alone", subject: "daemon 64 batch", base: "daemon 2 batch", most: 1.05},
		{key: "idle62-single", text: "the same, a frame a write", subject: "daemon 64 single", base: "daemon 2 single", most: 1.05},
		{key: "active32", text: "32 pairs at once / one", subject: "daemon 32 pairs batch", base: "daemon 2 batch", most: 1.25},
		{key: "active32-c", text: "the same, floors", subject: "floor 32 pairs batch", base: "floor 2 batch", cpu: true},
		{key: "pairs2", text: "2 pairs at once / floor", subject: "daemon 2 pairs batch", base: "floor 2 pairs batch"},
	}
}
