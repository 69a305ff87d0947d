// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

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
		sizes(),
		scaling(),
		latency(),
		vmnetC(),
		datagrams(),
		localSwitching(),
		onMac(),
	}
}

// A setup is one combination of relay and traffic. Each round measures it once, and some of the rounds where it is in no row.
type setup struct {
	name   string
	series []string // under which its rounds are filed; empty: seriesOther
	relay  string   // a rig.Kind
	load   rig.Load
	parts  int  // shorter measurements in place of one, each with a new relay; 0 = 1
	short  bool // half the time: for what CPU time decides
}

// echoParts is how often round trips are measured in a round. They depend on which cores the scheduler happens to put the
// processes on, and it seldom changes its mind within a measurement.
const echoParts = 4

// A row is one line of the table: a set-up against another one.
type row struct {
	key, text     string
	subject, base string  // names of set-ups
	latency       bool    // the median of round trips, where less is better, instead of frames per second
	p99           bool    // with latency: their 99th percentile
	target        float64 // of subject / base; 0: only shown
	mustHold      bool    // the run is invalid if it is missed
	cpu           bool    // CPU time per frame decides in any case
	pair          int     // above 0: the frames of this pair only, from 1 on

	// most is how much CPU time per frame the subject may take at most, in that of the base. Both ratios of such a row are
	// costs. 0: this row has a target or none.
	most float64
}

// setups are all combinations, in the order they are measured in. A set-up that several parts name is one, in all their series.
func setups() (all []setup) {
	for _, p := range parts() {
		for _, s := range p.setups {
			i := slices.IndexFunc(all, func(other setup) bool { return other.name == s.name })
			if i < 0 {
				all = append(all, s)
				continue
			}
			for _, name := range s.series {
				if !slices.Contains(all[i].series, name) {
					all[i].series = append(slices.Clone(all[i].series), name)
				}
			}
		}
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

// relayNames are the kinds of relays in the names of set-ups.
var relayNames = map[string]string{
	rounds.Daemon: "daemon", rounds.DaemonVmnet: "vmnet", rounds.Floor: "floor", rounds.Blind: "copy", rounds.Old: "old",
	rounds.VmnetC: "vmnet-c", rounds.DaemonMachrun: "mac",
}
