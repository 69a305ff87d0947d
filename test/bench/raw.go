// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// transports are the kinds of clients as package rounds names them.
var transports = map[rune]string{'s': "stream", 'd': "passed", 'u': "path", 'c': "connected"}

// transport names the kinds of a load's pairs.
func transport(l rig.Load) string {
	pair := func(i int) string {
		last := len(l.Kinds) - 1
		from, to := transports[rune(l.Kinds[min(2*i, last)])], transports[rune(l.Kinds[min(2*i+1, last)])]
		if from == to {
			return from
		}
		return from + "/" + to
	}
	if l.Kinds == "" {
		return "stream"
	}
	for i := range l.Pairs {
		if pair(i) != pair(0) {
			return "mixed"
		}
	}
	return pair(0)
}

// sender names how a load's frames are written.
func sender(l rig.Load) string {
	if l.Batch == 1 {
		return "single"
	}
	return "batch"
}

// activeClients are those that send or are sent to.
func activeClients(l rig.Load) int {
	n := 2 * l.Pairs
	if l.Victim != "" {
		n += 1 + max(l.Victims, 1)
	}
	return n
}

// pingLen is the length of a frame whose round trips are measured.
const pingLen = 64

// raw are the rounds of a measurement: one for each series that it belongs to.
func (m measurement) raw(s setup) []rounds.Round {
	l := s.load
	r := rounds.Round{
		Setup: s.name, Round: m.Round, Relay: s.relay, Transport: transport(l), Sender: sender(l), Direction: rounds.ClientToClient,
		Frame: l.FrameLen(), Clients: l.Clients, Active: activeClients(l),
		Seconds: time.Duration(m.WallNS).Seconds(), Frames: uint64(m.Received), Bytes: uint64(m.Received) * uint64(l.FrameLen()),
		Drops: uint64(m.Lost), CPUSeconds: time.Duration(m.RelayCPUNS).Seconds(),
		Voluntary: m.Voluntary, Involuntary: m.Involuntary, MemoryKiB: m.MemoryKiB,
		Trips: uint64(m.RoundTrips), P50: m.RTTP50NS, P99: m.RTTP99NS, P999: m.RTTP999NS,
	}
	if l.Echo {
		r.Frame = pingLen
	}
	var all []rounds.Round
	for _, r.Series = range s.filed() {
		all = append(all, r)
	}
	return all
}

// rawRounds are those of measurements, by series, set-up and round.
func rawRounds(done []measurement) []rounds.Round {
	known := map[string]setup{}
	for _, s := range setups() {
		known[s.name] = s
	}
	var all []rounds.Round
	for _, m := range done {
		all = append(all, m.raw(known[m.Setup])...)
	}
	slices.SortStableFunc(all, func(a, b rounds.Round) int {
		return strings.Compare(a.Series+"\x00"+a.Setup, b.Series+"\x00"+b.Setup)
	})
	return all
}
