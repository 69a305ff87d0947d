// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// A part is what a file of its own adds to the benchmark. To add one: write a file with a function that returns it, and put that
// function into parts. C sources go to rig/csrc and are compiled by the Prepare of a rig.Kind (Rig.Compile); the setups name the
// kind as their relay. A set-up may be in a row, in a series, or in both.
type part struct {
	kinds  []rig.Kind // of relays that package rig does not know
	setups []setup
	rows   []row
}

// parts is everything that is measured interleaved.
func parts() []part {
	return []part{
		basics(),
		vmnetC(),
		datagrams(),
		localSwitching(),
	}
}

// A setup is one combination of relay and traffic; each round measures it once.
type setup struct {
	name   string
	series []string // under which its rounds are filed; empty: those of nothing but rows
	relay  string   // a rig.Kind
	load   rig.Load
	parts  int  // shorter measurements in place of one, each with a new relay; 0 = 1
	short  bool // half the time: for what CPU time decides
}

// echoParts is how often round trips are measured in a round. They depend on which cores the scheduler happens to put the
// processes on, and it seldom changes its mind within a measurement.
const echoParts = 4

// basics are streams on the embedded network and on the simulated vmnet.
func basics() part { return part{setups: basicSetups(), rows: basicRows()} }

// basicSetups are in the order they are measured in. The names say relay, number of clients, kind of sender.
func basicSetups() []setup {
	pair := func(clients, batch int) rig.Load { return rig.Load{Clients: clients, Pairs: 1, Batch: batch} }
	deaf := func(victim string) rig.Load {
		return rig.Load{Clients: 6, Pairs: 2, Batch: rig.BatchFrames, Victim: victim}
	}
	echo := rig.Load{Clients: 2, Pairs: 1, Batch: 1, Echo: true}
	return []setup{
		{name: "copy 2 batch", relay: rounds.Blind, load: pair(2, rig.BatchFrames)},
		{name: "floor 2 batch", relay: rounds.Floor, load: pair(2, rig.BatchFrames)},
		{name: "daemon 2 batch", relay: rounds.Daemon, load: pair(2, rig.BatchFrames)},
		{name: "old 2 batch", relay: rounds.Old, load: pair(2, rig.BatchFrames)},
		{name: "floor 2 single", relay: rounds.Floor, load: pair(2, 1)},
		{name: "daemon 2 single", relay: rounds.Daemon, load: pair(2, 1)},
		{name: "old 2 single", relay: rounds.Old, load: pair(2, 1)},
		{name: "daemon 8 single", relay: rounds.Daemon, load: pair(8, 1)},
		{name: "old 8 single", relay: rounds.Old, load: pair(8, 1)},
		{name: "daemon 8 batch", relay: rounds.Daemon, load: pair(8, rig.BatchFrames)},
		{name: "old 8 batch", relay: rounds.Old, load: pair(8, rig.BatchFrames)},
		{name: "daemon 64 batch", relay: rounds.Daemon, load: pair(64, rig.BatchFrames)},
		{name: "floor 4 batch", relay: rounds.Floor, load: rig.Load{Clients: 4, Pairs: 2, Batch: rig.BatchFrames}},
		{name: "daemon 4 batch", relay: rounds.Daemon, load: rig.Load{Clients: 4, Pairs: 2, Batch: rig.BatchFrames}},
		{name: "daemon all read", relay: rounds.Daemon, load: deaf(rig.VictimReads)},
		{name: "daemon one deaf", relay: rounds.Daemon, load: deaf(rig.VictimDeaf)},
		{name: "old all read", relay: rounds.Old, load: deaf(rig.VictimReads)},
		{name: "old one deaf", relay: rounds.Old, load: deaf(rig.VictimDeaf)},
		{name: "vmnet 2 batch", relay: rounds.DaemonVmnet, load: pair(2, rig.BatchFrames)},
		{name: "vmnet 2 single", relay: rounds.DaemonVmnet, load: pair(2, 1)},
		{name: "vmnet echo", relay: rounds.DaemonVmnet, load: echo, parts: echoParts},
		{name: "floor echo", relay: rounds.Floor, load: echo, parts: echoParts},
		{name: "daemon echo", relay: rounds.Daemon, load: echo, parts: echoParts},
	}
}

// A row is one line of the table: a set-up against another one.
type row struct {
	key, text     string
	subject, base string  // names of set-ups
	latency       bool    // round trips, where less is better, instead of frames per second
	target        float64 // of subject / base; 0: only shown
	mustHold      bool    // the run is invalid if it is missed
	cpu           bool    // CPU time per frame decides in any case
	pair          int     // above 0: the frames of this pair only, from 1 on
}

func basicRows() []row {
	return []row{
		{key: "floor", text: "the floor itself / blind copy", subject: "floor 2 batch", base: "copy 2 batch", target: 0.8, mustHold: true},
		{key: "pair", text: "2 clients / floor", subject: "daemon 2 batch", base: "floor 2 batch", target: 0.85},
		{key: "pair-single", text: "2 clients / floor, a frame a write", subject: "daemon 2 single", base: "floor 2 single"},
		{key: "pairs2", text: "2 pairs at once / floor", subject: "daemon 4 batch", base: "floor 4 batch"},
		{key: "old2-single", text: "2 clients / old way, a frame a write", subject: "daemon 2 single", base: "old 2 single", target: 2},
		{key: "old8-single", text: "8 clients / old way, a frame a write", subject: "daemon 8 single", base: "old 8 single", target: 8},
		{key: "old2", text: "2 clients / old way, batching", subject: "daemon 2 batch", base: "old 2 batch", target: 4},
		{key: "old8", text: "8 clients / old way, batching", subject: "daemon 8 batch", base: "old 8 batch", target: 25},
		{key: "idle62", text: "a pair among 62 idle / alone", subject: "daemon 64 batch", base: "daemon 2 batch", target: 0.85},
		{key: "deaf", text: "2 pairs, another never reads / reads", subject: "daemon one deaf", base: "daemon all read", target: 0.9},
		{key: "deaf-old", text: "the same, the old way", subject: "old one deaf", base: "old all read"},
		{key: "rtt", text: "idle round trip p50 / floor", subject: "daemon echo", base: "floor echo", latency: true, target: 1.15},
		{key: "vmnet", text: "2 clients on simulated vmnet / floor", subject: "vmnet 2 batch", base: "floor 2 batch"},
		{key: "vmnet-usernet", text: "the same / embedded network", subject: "vmnet 2 batch", base: "daemon 2 batch"},
		{key: "vmnet-old", text: "the same / old way, batching", subject: "vmnet 2 batch", base: "old 2 batch"},
		{key: "vmnet-old-single", text: "the same / old way, a frame a write", subject: "vmnet 2 single", base: "old 2 single"},
		{key: "vmnet-rtt", text: "its idle round trip p50 / floor", subject: "vmnet echo", base: "floor echo", latency: true},
	}
}

// The rows that are one figure of the daemon and not a comparison.
const (
	keyGC     = "gc"
	keyMemory = "mem"

	keyMemoryPassed = "mem-passed"
	keyMemoryPath   = "mem-path"
)

func keys() []string {
	var all []string
	for _, r := range rows() {
		all = append(all, r.key)
	}
	all = append(all, callKeys()...)
	return append(all, keyGC, keyMemory, keyMemoryPassed, keyMemoryPath, keyIdle)
}

func checkKeys(only []string) error {
	for _, key := range only {
		if !slices.Contains(keys(), key) {
			return fmt.Errorf("unknown row %q in --only: want some of %s", key, strings.Join(keys(), ", "))
		}
	}
	return nil
}

func wanted(key string, only []string) bool { return len(only) == 0 || slices.Contains(only, key) }

// chosenRows are those of only, and the check of the floor wherever the floor is used.
func chosenRows(only []string) []row {
	var chosen []row
	floor := false
	for _, r := range rows() {
		if wanted(r.key, only) {
			chosen = append(chosen, r)
			floor = floor || strings.HasPrefix(r.base, "floor")
		}
	}
	if floor && !wanted("floor", only) {
		chosen = append([]row{rows()[0]}, chosen...)
	}
	return chosen
}

// chosenSetups are those that the rows need, in the order of setups.
func chosenSetups(rows []row) []setup {
	return slices.DeleteFunc(setups(), func(s setup) bool {
		return !slices.ContainsFunc(rows, func(r row) bool { return r.subject == s.name || r.base == s.name })
	})
}

// chosenRelays are the kinds of relays that the rows of only need.
func chosenRelays(only []string) []string {
	var kinds []string
	for _, s := range chosenSetups(chosenRows(only)) {
		kinds = append(kinds, s.relay)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// setups are all combinations, in the order they are measured in.
func setups() (all []setup) {
	for _, p := range parts() {
		all = append(all, p.setups...)
	}
	return all
}

// rows are the comparisons.
func rows() (all []row) {
	for _, p := range parts() {
		all = append(all, p.rows...)
	}
	return all
}

// kinds are the relays that package rig does not know.
func kinds() (all []rig.Kind) {
	for _, p := range parts() {
		all = append(all, p.kinds...)
	}
	return all
}
