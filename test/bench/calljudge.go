// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
)

// The rows about the calls of vmnet.
const (
	keyCalls  = "calls"       // the binding against C
	keyShort  = "calls-short" // the same with frames of 64 bytes
	keyOwn    = "calls-own"   // the binding's and C's own cost
	keyAllocs = "allocs"
	keyEvent  = "event"
)

func callKeys() []string { return []string{keyCalls, keyShort, keyOwn, keyAllocs, keyEvent} }

func wantsCalls(c choice) bool { return slices.ContainsFunc(callKeys(), c.key) }

const (
	callRatio = 1.5 // of the CPU time in C, for batches
	callExtra = 200 // ns more than in C, for calls with one packet or none
	fullLen   = 1514
	shortLen  = 64
)

// A callSet is all cases of a run.
type callSet []callCase

// of returns the cost in each round, in ns.
func (s callSet) of(program, library, op string, perCall, length int) (ns []float64) {
	for _, c := range s {
		if c.Program == program && c.Library == library && c.Op == op && c.PerCall == perCall && c.Len == length {
			ns = append(ns, c.cost())
		}
	}
	return ns
}

// most is how many packets the daemon reads with one call.
func (s callSet) most() (n int) {
	for _, c := range s {
		n = max(n, c.PerCall)
	}
	return n
}

// judgeCalls turns the cases into the verdicts of the chosen rows.
func judgeCalls(s callSet, c choice) []verdict {
	if len(s) == 0 {
		return nil
	}
	most := s.most()
	var all []verdict
	all = append(all, s.against(keyCalls, opEmpty, opEmpty, most, 0))
	for _, n := range []int{1, 32, most} {
		for _, op := range []string{opRead, opWrite} {
			all = append(all, s.against(keyCalls, op, op, n, fullLen))
		}
	}
	for _, n := range []int{32, most} {
		all = append(all,
			s.against(keyShort, opRead, opRead, n, shortLen),
			s.against(keyShort, opRead, opReadBatch, n, shortLen),
			s.against(keyShort, opWrite, opWrite, n, shortLen))
	}
	all = append(all, s.own(opEmpty, most, 0))
	for _, n := range []int{1, 32, most} {
		for _, op := range []string{opRead, opWrite} {
			all = append(all, s.own(op, n, fullLen))
		}
	}
	all = append(all, s.allocations(opAllocRead), s.allocations(opAllocWrite), s.event(), s.eventAllocations())
	return slices.DeleteFunc(all, func(v verdict) bool { return !c.key(v.Key) })
}

// against compares Go with C on the simulator: by the ratio for batches, by the difference for the others.
func (s callSet) against(key, op, opC string, n, length int) verdict {
	v := compareCosts(s.of(programGo, libraryAll, op, n, length), s.of(programC, libraryAll, opC, n, length), n == 1 || op == opEmpty)
	v.Key, v.Text = key, fmt.Sprintf("%s / C", callText(op, n, length))
	switch {
	case opC == opReadBatch:
		v.Text += " that makes batches"
	case key == keyShort && op == opRead: // for information: C leaves the packets where they are
		v.Target, v.AtMost = 0, false
		v.Text += " that does not make batches"
	}
	return v.decide()
}

func callText(op string, n, length int) string {
	switch {
	case op == opEmpty:
		return "vmnet_read of nothing"
	case n == 1:
		return fmt.Sprintf("vmnet_%s of 1 of %d", op, length)
	default:
		return fmt.Sprintf("vmnet_%s of %d of %d, a packet", op, n, length)
	}
}

// compareCosts compares by the best rounds, and by the medians where best and median of either side are far apart.
func compareCosts(subject, base []float64, difference bool) verdict {
	s, b := slices.Min(subject), slices.Min(base)
	v := verdict{
		Subject: s, Base: b, SubjectCPU: median(subject), BaseCPU: median(base), Against: programC,
		Unit: unitCPU, AtMost: true, Difference: difference,
	}
	if difference {
		v.Ratio, v.CPURatio, v.Target = s-b, v.SubjectCPU-v.BaseCPU, callExtra
	} else {
		v.Ratio, v.CPURatio, v.Target = quotient(s, b), quotient(v.SubjectCPU, v.BaseCPU), callRatio
	}
	v.ByCPU = s*noisy < v.SubjectCPU || b*noisy < v.BaseCPU
	return v
}

// own subtracts what the simulator costs: what C saves when the two functions do nothing.
func (s callSet) own(op string, n, length int) verdict {
	bare := s.of(programC, libraryNil, op, n, length)
	goAll, cAll := s.of(programGo, libraryAll, op, n, length), s.of(programC, libraryAll, op, n, length)
	simulator := slices.Min(cAll) - slices.Min(bare)
	v := verdict{
		Key: keyOwn, Text: callText(op, n, length) + ", our own", Against: programC, Unit: unitCPU, Difference: true,
		Subject: slices.Min(goAll) - simulator, Base: slices.Min(bare),
	}
	simulator = median(cAll) - median(bare)
	v.SubjectCPU, v.BaseCPU = median(goAll)-simulator, median(bare)
	v.Ratio, v.CPURatio = v.Subject-v.Base, v.SubjectCPU-v.BaseCPU
	v.Remarks = fmt.Sprintf("the simulator's part is %.1f ns; Go with functions that do nothing: %.1f ns",
		slices.Min(cAll)-slices.Min(bare), slices.Min(s.of(programGo, libraryNil, op, n, length)))
	return v.decide()
}

// allocations are those of the round with the fewest: what allocates in every call does so in every round.
func (s callSet) allocations(op string) verdict {
	v := verdict{Key: keyAllocs, Text: "allocations in vmnet_write", Unit: "allocations", AtMost: true, Subject: -1}
	if op == opAllocRead {
		v.Text = "allocations in vmnet_read"
	}
	for _, c := range s {
		if c.Op == op && (v.Subject < 0 || float64(c.Mallocs) < v.Subject) {
			v.Subject = float64(c.Mallocs)
			v.Remarks = fmt.Sprintf("in all of %d calls", c.Calls)
		}
	}
	if v.Subject < 0 { // never measured
		v.Subject = allocCalls
	}
	return v.decide()
}

// event compares what an event costs that brings one packet, which is read and answered.
func (s callSet) event() verdict {
	v := compareCosts(s.of(programGo, libraryAll, opEvent, 1, shortLen), s.of(programC, libraryAll, opEvent, 1, shortLen), false)
	v.Key, v.Text, v.Target, v.AtMost = keyEvent, "an event, its packet read and answered / C", 0, false
	return v.decide()
}

func (s callSet) eventAllocations() verdict {
	v := verdict{Key: keyEvent, Text: "allocations per event", Unit: "allocations"}
	events, mallocs := s.events()
	v.Subject = float64(int(100*quotient(float64(mallocs), float64(events)))) / 100
	v.Remarks = fmt.Sprintf("%d allocations in %d events", mallocs, events)
	return v.decide()
}

// events counts the events in Go and the allocations meanwhile.
func (s callSet) events() (events, mallocs int64) {
	for _, c := range s {
		if c.Op == opEvent && c.Program == programGo {
			events, mallocs = events+c.Calls, mallocs+c.Mallocs
		}
	}
	return events, mallocs
}
