// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// A source makes the decisions of one actor. They depend on nothing but the seed, the actor and how many came before, so a run
// with the same seed makes the same decisions, whatever the machine is doing.
type source struct{ *rand.Rand }

func newSource(seed uint64, actor string) source {
	h := fnv.New64a()
	_, _ = h.Write([]byte(actor))
	return source{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// between is a duration from lo to hi.
func (s source) between(lo, hi time.Duration) time.Duration {
	return (lo + time.Duration(s.Int64N(int64(hi-lo)+1))).Round(time.Millisecond)
}

// choice is one of several things with its weight.
type choice[T any] struct {
	weight int
	what   T
}

func pick[T any](s source, all []choice[T]) T {
	sum := 0
	for _, c := range all {
		sum += c.weight
	}
	n := s.IntN(sum)
	for _, c := range all {
		if n -= c.weight; n < 0 {
			return c.what
		}
	}
	panic("unreachable")
}

// A stepKind is what a guest does next.
type stepKind string

const (
	stepBurst     stepKind = "burst"     // unicast to another guest
	stepBroadcast stepKind = "broadcast" // to all
	stepUnknown   stepKind = "unknown"   // unicast to an address that nobody has
	stepStall     stepKind = "stall"     // does not read for a while
	stepPause     stepKind = "pause"     // is silent
	stepDribble   stepKind = "dribble"   // a frame in pieces, with time between them
)

// A step is one of a session's.
type step struct {
	Kind   stepKind      `json:"kind"`
	To     int           `json:"to,omitempty"` // guest
	Frames int           `json:"frames,omitempty"`
	Size   int           `json:"size,omitempty"` // of the frames, at most, in bytes
	For    time.Duration `json:"for,omitempty"`
}

// An ending is how a session ends.
type ending string

const (
	endOrderly ending = "orderly" // everything sent is read, everything for it received, then it tells
	endAbrupt  ending = "abrupt"  // as if killed: closed with whatever is unread
	endHalf    ending = "half"    // closed in the middle of a frame
	endLeave   ending = "leave"   // as abrupt; a path stays behind
)

// A session is what a guest does from one connecting to its end.
type session struct {
	Transport transport     `json:"transport"`
	Fresh     bool          `json:"fresh"` // an address that no guest has had before
	Steps     []step        `json:"steps"`
	End       ending        `json:"end"`
	Wait      time.Duration `json:"wait"` // before the next one
}

// bounds are what sessions may do.
type bounds struct {
	guests   int
	maxFrame int // of the network, bytes
	pause    time.Duration
}

// nextSession decides on the session of a guest whose usual transport is usual.
func (s source) nextSession(usual transport, b bounds) session {
	x := session{Transport: usual, Fresh: s.IntN(10) < 7, Wait: s.between(0, 300*time.Millisecond)}
	if s.IntN(4) == 0 {
		x.Transport = transports[s.IntN(len(transports))]
	}
	for range 4 + s.IntN(40) {
		x.Steps = append(x.Steps, s.nextStep(b))
	}
	x.End = pick(s, []choice[ending]{{50, endOrderly}, {30, endAbrupt}, {12, endHalf}, {8, endLeave}})
	return x
}

func (s source) nextStep(b bounds) step {
	x := step{Kind: pick(s, []choice[stepKind]{
		{60, stepBurst}, {8, stepBroadcast}, {4, stepUnknown}, {3, stepStall}, {22, stepPause}, {3, stepDribble},
	})}
	x.For = s.between(0, 2*b.pause)
	x.To = s.IntN(b.guests)
	x.Size = min(s.nextSize(), b.maxFrame)
	switch x.Kind {
	case stepBurst:
		x.Frames = 1 + s.IntN(64)
	case stepBroadcast, stepUnknown:
		x.Frames = 1 + s.IntN(6)
		x.Size = min(x.Size, 1514)
	case stepStall:
		x.For = s.between(50*time.Millisecond, 2*time.Second)
	case stepDribble:
		x.Frames = 1
		x.Size = min(x.Size, 9014)
	case stepPause:
		x.Frames = 0
	}
	return x
}

func (s source) nextSize() int {
	return pick(s, []choice[int]{{50, 200}, {35, 1514}, {10, 9014}, {4, 32768}, {1, 65550}})
}

// A chaosKind is what happens to the daemon.
type chaosKind string

const (
	chaosNone    chaosKind = "none"
	chaosTerm    chaosKind = "term"    // stopped in order, started again
	chaosKill    chaosKind = "kill"    // killed, started again
	chaosUpgrade chaosKind = "upgrade" // replaced in place
	chaosRefused chaosKind = "refused" // an upgrade to a program that is none
	chaosFreeze  chaosKind = "freeze"  // stopped and continued by the system
	chaosCalm    chaosKind = "calm"    // every client leaves; what the daemon uses is measured
)

// A chaos is an act of the director.
type chaos struct {
	After time.Duration `json:"after"` // since the last one
	Kind  chaosKind     `json:"kind"`
	For   time.Duration `json:"for,omitempty"` // down, or frozen
}

// nextChaos decides what happens to the daemon next. Without upgrades those are restarts.
func (s source) nextChaos(pace time.Duration) chaos {
	x := chaos{After: s.between(pace/2, pace*3/2)}
	x.Kind = pick(s, []choice[chaosKind]{
		{15, chaosTerm}, {12, chaosKill}, {30, chaosUpgrade}, {6, chaosRefused}, {7, chaosFreeze}, {22, chaosCalm}, {8, chaosNone},
	})
	switch x.Kind {
	case chaosTerm, chaosKill:
		x.For = s.between(0, 500*time.Millisecond)
	case chaosFreeze:
		x.For = s.between(50*time.Millisecond, 1500*time.Millisecond)
	default:
	}
	return x
}

// guestName names the actor of a guest.
func guestName(n int) string { return fmt.Sprintf("guest %d", n) }
