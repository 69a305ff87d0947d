// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// The clients of the rows about isolation: a pair by the stream socket, one with passed datagram sockets, one by paths, a
// feeder, and the clients it sends to.
const (
	mixedPairs   = rig.Stream + rig.Stream + rig.Passed + rig.Passed + rig.Unconnected + rig.Connected
	passed       = rig.Passed + rig.Passed
	mixedVictims = rig.Passed + rig.Connected + rig.Unconnected
)

// The directions between a stream client and a datagram client that are measured.
var mixes = []struct{ key, text, kinds string }{
	{"to-passed", "stream > passed datagram socket", rig.Stream + rig.Passed},
	{"from-passed", "passed datagram socket > stream", rig.Passed + rig.Stream},
	{"to-path", "stream > path, unconnected", rig.Stream + rig.Unconnected},
	{"from-path", "path, unconnected > stream", rig.Unconnected + rig.Stream},
	{"to-connected", "stream > path, connected", rig.Stream + rig.Connected},
	{"from-connected", "path, connected > stream", rig.Connected + rig.Stream},
}

// datagrams are the clients with datagram sockets.
func datagrams() part { return part{setups: datagramSetups(), rows: datagramRows()} }

// flowOf is a flow between two clients of these kinds.
func flowOf(series, name, relay, kinds string, batch int) setup {
	l := rig.Load{Clients: 2, Pairs: 1, Batch: batch, Kinds: kinds}
	return setup{name: name, series: []string{series}, relay: relay, load: l, short: true}
}

// datagramSetups are the combinations with datagram clients. The kinds of sender and receiver are in the names.
func datagramSetups() []setup {
	flow := func(name, relay, kinds string, batch int) setup {
		return flowOf(seriesDatagram, name, relay, kinds, batch)
	}
	echo := func(name, relay string) setup {
		l := rig.Load{Clients: 2, Pairs: 1, Batch: 1, Kinds: passed, Echo: true}
		return setup{name: name, series: []string{seriesDatagram}, relay: relay, load: l, parts: echoParts}
	}
	mixed := func(name, victim string) setup {
		return setup{name: name, series: []string{seriesDeaf}, relay: rounds.Daemon, load: rig.Load{
			Clients: len(mixedPairs + rig.Stream + mixedVictims), Pairs: len(mixedPairs) / 2, Batch: rig.BatchFrames,
			Kinds: mixedPairs + rig.Stream + mixedVictims, Victim: victim, Victims: len(mixedVictims),
		}}
	}
	all := []setup{
		flow("floor dd batch", rounds.Floor, passed, rig.BatchFrames),
		flow("frame dd batch", rig.FloorPerFrame, passed, rig.BatchFrames),
		flow("daemon dd batch", rounds.Daemon, passed, rig.BatchFrames),
		flow("per frame dd batch", rig.DaemonPerFrame, passed, rig.BatchFrames),
		flow("daemon dd single", rounds.Daemon, passed, 1),
		flow("per frame dd single", rig.DaemonPerFrame, passed, 1),
		echo("floor dd echo", rounds.Floor),
		echo("daemon dd echo", rounds.Daemon),
		mixed("daemon mixed all read", rig.VictimReads),
		mixed("daemon mixed deaf", rig.VictimDeaf),
	}
	for _, m := range mixes {
		all = append(all,
			flow("floor "+m.kinds+" batch", rounds.Floor, m.kinds, rig.BatchFrames),
			flow("daemon "+m.kinds+" batch", rounds.Daemon, m.kinds, rig.BatchFrames),
		)
	}
	return all
}

// datagramRows are the comparisons with datagram clients. Each datagram costs the kernel about as much as some frames of a
// stream do, whoever relays them, so a mixed pair is held against a floor of its own kind; what the floor makes of it is
// shown beside.
func datagramRows() []row {
	const text = "2 passed datagram sockets"
	all := []row{
		{key: "dgram", text: text + " / a datagram a system call", subject: "daemon dd batch", base: "per frame dd batch", cpu: true, target: 1.3},
		{key: "dgram-single", text: "the same, the clients too", subject: "daemon dd single", base: "per frame dd single", cpu: true},
		{key: "dgram-c", text: "the floor / a datagram a system call", subject: "floor dd batch", base: "frame dd batch", cpu: true},
		{key: "dgram-pair", text: text + " / floor", subject: "daemon dd batch", base: "floor dd batch", target: 0.85},
		{key: "dgram-rtt", text: "idle round trip p50 / floor", subject: "daemon dd echo", base: "floor dd echo", latency: true},
	}
	for _, m := range mixes {
		floor, daemon := "floor "+m.kinds+" batch", "daemon "+m.kinds+" batch"
		all = append(all,
			row{key: m.key, text: m.text + " / floor", subject: daemon, base: floor, target: 0.7},
			row{key: m.key + "-stream", text: m.text + " / stream > stream", subject: daemon, base: "daemon 2 batch"},
			row{key: m.key + "-c", text: "the same, floors", subject: floor, base: "floor 2 batch"},
		)
	}
	const mixedDeaf, mixedRead = "daemon mixed deaf", "daemon mixed all read"
	return append(all,
		row{key: "deaf-mixed", text: "3 kinds of pairs, 3 kinds of clients never read / read", subject: mixedDeaf, base: mixedRead, target: 0.9},
		row{key: "deaf-stream", text: "the stream pair of these", subject: mixedDeaf, base: mixedRead, pair: 1},
		row{key: "deaf-passed", text: "the pair with passed sockets", subject: mixedDeaf, base: mixedRead, pair: 2},
		row{key: "deaf-path", text: "the pair by paths", subject: mixedDeaf, base: mixedRead, pair: 3},
	)
}
