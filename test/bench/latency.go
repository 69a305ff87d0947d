// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// echo is a ping-pong of 64 bytes between two of so many stream clients; the others are idle.
func echo(series, relay string, clients int) setup {
	s := setup{
		name: relayNames[relay] + " echo", series: []string{series}, relay: relay, parts: echoParts,
		load: rig.Load{Clients: clients, Pairs: 1, Batch: 1, Echo: true},
	}
	if clients > 2 {
		s.name = fmt.Sprintf("%s echo among %d", relayNames[relay], clients)
	}
	return s
}

// echoBeside is a ping-pong beside a flow of 1514 byte frames between two other clients.
func echoBeside(relay string) setup {
	return setup{
		name: relayNames[relay] + " echo beside a flow", series: []string{seriesLatency}, relay: relay, parts: 2,
		load: rig.Load{Clients: 4, Pairs: 2, Batch: rig.BatchFrames, Echo: true},
	}
}

// latency is round trips.
func latency() part {
	var all []setup
	for _, relay := range []string{rounds.Floor, rounds.Daemon, rounds.Old} {
		for _, clients := range []int{2, 8, mostClients} {
			all = append(all, echo(seriesLatency, relay, clients))
		}
		all = append(all, echoBeside(relay))
	}
	all = append(all, echo(seriesVmnet, rounds.DaemonVmnet, 2))
	const beside = " echo beside a flow"
	return part{setups: all, rows: []row{
		{key: "rtt", text: "idle round trip p50 / floor", subject: "daemon echo", base: "floor echo", latency: true, target: 1.1},
		{key: "rtt-p99", text: "idle round trip p99 / floor", subject: "daemon echo", base: "floor echo", latency: true, p99: true},
		{key: "rtt-load", text: "beside a flow, p99 / floor", subject: "daemon" + beside, base: "floor" + beside, latency: true, p99: true, target: 3},
		{key: "rtt-load-p50", text: "beside a flow, p50 / floor", subject: "daemon" + beside, base: "floor" + beside, latency: true},
		{key: "rtt-load-flow", text: "the flow beside it / floor", subject: "daemon" + beside, base: "floor" + beside},
		{key: "rtt-load-old", text: "beside a flow, p99 / old way", subject: "daemon" + beside, base: "old" + beside, latency: true, p99: true},
		{key: "rtt-old2", text: "idle round trip p50 / old way", subject: "daemon echo", base: "old echo", latency: true},
		{key: "rtt-old8", text: "the same among 8 clients", subject: "daemon echo among 8", base: "old echo among 8", latency: true},
		{key: "rtt-old64", text: "the same among 64 clients", subject: "daemon echo among 64", base: "old echo among 64", latency: true},
		{key: "vmnet-rtt", text: "round trip on simulated vmnet / floor", subject: "vmnet echo", base: "floor echo", latency: true},
	}}
}
