// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// flow is a set-up with stream clients and frames of 1514 bytes. Its name says relay, number of clients or of active pairs, and
// kind of sender.
func flow(series, relay string, clients, pairs, batch int) setup {
	s := setup{
		name: fmt.Sprintf("%s %d ", relayNames[relay], clients), series: []string{series}, relay: relay,
		load: rig.Load{Clients: clients, Pairs: pairs, Batch: batch},
	}
	if pairs > 1 {
		s.name = fmt.Sprintf("%s %d pairs ", relayNames[relay], pairs)
	}
	s.name += "batch"
	if batch == 1 {
		s.name = s.name[:len(s.name)-len("batch")] + "single"
	}
	return s
}

// basics are two stream clients on each relay, clients that never read, and the simulated vmnet.
func basics() part {
	deaf := func(name, relay, victim string) setup {
		l := rig.Load{Clients: 6, Pairs: 2, Batch: rig.BatchFrames, Victim: victim}
		return setup{name: name, series: []string{seriesDeaf}, relay: relay, load: l}
	}
	var all []setup
	for _, relay := range []string{rounds.Blind, rounds.Floor, rounds.Daemon, rounds.Old, rounds.DaemonVmnet} {
		all = append(all, flow(seriesPair, relay, 2, 1, rig.BatchFrames))
	}
	for _, relay := range []string{rounds.Floor, rounds.Daemon, rounds.Old, rounds.DaemonVmnet} {
		all = append(all, flow(seriesPair, relay, 2, 1, 1))
	}
	return part{setups: append(all,
		deaf("daemon all read", rounds.Daemon, rig.VictimReads),
		deaf("daemon one deaf", rounds.Daemon, rig.VictimDeaf),
		deaf("old all read", rounds.Old, rig.VictimReads),
		deaf("old one deaf", rounds.Old, rig.VictimDeaf),
	), rows: basicRows()}
}

func basicRows() []row {
	return []row{
		{key: "floor", text: "the floor itself / blind copy", subject: "floor 2 batch", base: "copy 2 batch", target: 0.8, mustHold: true},
		{key: "pair", text: "2 clients / floor", subject: "daemon 2 batch", base: "floor 2 batch", target: 0.95},
		{key: "pair-single", text: "2 clients / floor, a frame a write", subject: "daemon 2 single", base: "floor 2 single"},
		{key: "deaf", text: "2 pairs, another never reads / reads", subject: "daemon one deaf", base: "daemon all read", target: 0.9},
		{key: "deaf-old", text: "the same, the old way", subject: "old one deaf", base: "old all read"},
		{key: "vmnet", text: "2 clients on simulated vmnet / floor", subject: "vmnet 2 batch", base: "floor 2 batch"},
		{key: "vmnet-usernet", text: "the same / embedded network", subject: "vmnet 2 batch", base: "daemon 2 batch"},
		{key: "vmnet-old", text: "the same / old way, batching", subject: "vmnet 2 batch", base: "old 2 batch"},
		{key: "vmnet-old-single", text: "the same / old way, a frame a write", subject: "vmnet 2 single", base: "old 2 single"},
	}
}
