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

// datagramSetups are the combinations with datagram clients. The kinds of sender and receiver are in the names.
func datagramSetups() []setup {
	flow := func(kinds string, batch int) rig.Load {
		return rig.Load{Clients: 2, Pairs: 1, Batch: batch, Kinds: kinds}
	}
	const passed = rig.Passed + rig.Passed
	mixed := func(victim string) rig.Load {
		return rig.Load{
			Clients: len(mixedPairs + rig.Stream + mixedVictims), Pairs: len(mixedPairs) / 2, Batch: rig.BatchFrames,
			Kinds: mixedPairs + rig.Stream + mixedVictims, Victim: victim, Victims: len(mixedVictims),
		}
	}
	echo := rig.Load{Clients: 2, Pairs: 1, Batch: 1, Kinds: passed, Echo: true}
	all := []setup{
		{name: "floor dd batch", relay: rounds.Floor, load: flow(passed, rig.BatchFrames), short: true},
		{name: "frame dd batch", relay: rig.FloorPerFrame, load: flow(passed, rig.BatchFrames), short: true},
		{name: "daemon dd batch", relay: rounds.Daemon, load: flow(passed, rig.BatchFrames), short: true},
		{name: "per frame dd batch", relay: rig.DaemonPerFrame, load: flow(passed, rig.BatchFrames), short: true},
		{name: "daemon dd single", relay: rounds.Daemon, load: flow(passed, 1), short: true},
		{name: "per frame dd single", relay: rig.DaemonPerFrame, load: flow(passed, 1), short: true},
		{name: "floor dd echo", relay: rounds.Floor, load: echo, parts: echoParts},
		{name: "daemon dd echo", relay: rounds.Daemon, load: echo, parts: echoParts},
		{name: "daemon mixed all read", relay: rounds.Daemon, load: mixed(rig.VictimReads)},
		{name: "daemon mixed deaf", relay: rounds.Daemon, load: mixed(rig.VictimDeaf)},
	}
	for _, m := range mixes {
		all = append(all,
			setup{name: "floor " + m.kinds + " batch", relay: rounds.Floor, load: flow(m.kinds, rig.BatchFrames), short: true},
			setup{name: "daemon " + m.kinds + " batch", relay: rounds.Daemon, load: flow(m.kinds, rig.BatchFrames), short: true},
		)
	}
	return all
}

// datagramRows are the comparisons with datagram clients. Each datagram costs the kernel about as much as some frames of a
// stream do, whoever relays them, so a mixed pair is held against a floor of its own kind; what the floor makes of it is
// shown beside.
func datagramRows() []row {
	const passed = "2 passed datagram sockets"
	all := []row{
		{key: "dgram", text: passed + " / a datagram a system call", subject: "daemon dd batch", base: "per frame dd batch", cpu: true, target: 1.3},
		{key: "dgram-single", text: "the same, the clients too", subject: "daemon dd single", base: "per frame dd single", cpu: true},
		{key: "dgram-c", text: "the floor / a datagram a system call", subject: "floor dd batch", base: "frame dd batch", cpu: true},
		{key: "dgram-pair", text: passed + " / floor", subject: "daemon dd batch", base: "floor dd batch", target: 0.85},
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
