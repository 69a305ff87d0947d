// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

const (
	// targetFloor is how near to the bare C relay TCP between two clients is to be, targetGvproxy how much faster than
	// gvproxy the way to the host and back.
	targetFloor, targetGvproxy = 0.8, 1.2

	// noisy is the quotient of best and median from which on a busy machine is suspected. Then CPU time decides between two
	// user-space stacks, which are where the work is. Between two clients most of it is theirs and the best rounds decide.
	noisy = 1.5
)

// A verdict compares the daemon with another relay in the same place.
type verdict struct {
	text     string
	ratio    float64 // best speed / best speed; for round trips best p50 / best p50
	cpuRatio float64 // the other's median of CPU time per byte / the daemon's; 0: none
	byCPU    bool    // which of the two decides
	target   float64 // at least; 0: only shown
}

func (v verdict) met() bool {
	if v.byCPU {
		return v.cpuRatio >= v.target
	}
	return v.ratio >= v.target
}

func (v verdict) outcome() string {
	if v.target == 0 {
		return ""
	}
	text := "met"
	if !v.met() {
		text = "MISSED"
	}
	if v.byCPU {
		text += ", by CPU time: the machine was busy"
	}
	return text
}

// judge compares the daemon with each relay that was measured in its place.
func judge(f rounds.File) []verdict {
	names, of := bySetup(f)
	var all []verdict
	for _, name := range names {
		daemon := of[name]
		if daemon[0].Relay != rounds.Daemon {
			continue
		}
		for _, relay := range []string{rounds.Floor, rounds.Gvproxy, rounds.Old} {
			i := slices.IndexFunc(names, func(n string) bool { return of[n][0].Relay == relay && alike(of[n][0], daemon[0]) })
			if i < 0 {
				continue
			}
			v := compare(daemon, of[names[i]])
			v.text = name + " / " + relay
			all = append(all, v)
		}
	}
	return all
}

// alike tells whether two rounds differ in the relay alone. The set-up's name tells what the other fields do not, with the relay
// as its second word.
func alike(a, b rounds.Round) bool {
	return strings.Replace(a.Setup, " "+a.Relay+" ", " ", 1) == strings.Replace(b.Setup, " "+b.Relay+" ", " ", 1)
}

func compare(daemon, other []rounds.Round) verdict {
	if daemon[0].Trips > 0 {
		return verdict{ratio: quotient(slices.Min(each(daemon, micro50)), slices.Min(each(other, micro50)))}
	}
	speed, base := each(daemon, mbits), each(other, mbits)
	v := verdict{
		ratio:    quotient(slices.Max(speed), slices.Max(base)),
		cpuRatio: quotient(median(each(other, cpuPerGB)), median(each(daemon, cpuPerGB))),
	}
	switch other[0].Relay {
	case rounds.Floor:
		v.target = targetFloor
	case rounds.Gvproxy:
		v.target = targetGvproxy
		v.byCPU = v.cpuRatio > 0 && (isNoisy(speed) || isNoisy(base))
	}
	return v
}

func isNoisy(speeds []float64) bool { return median(speeds)*noisy < slices.Max(speeds) }
