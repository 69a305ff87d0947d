// SPDX-License-Identifier: Apache-2.0

// Package reconnect measures what real virtual machines under load notice when their daemon is stopped, killed, restarted
// or replaced in place: how long nothing arrived, how much was lost, and whether they send again. README.md beside this
// file says what each test shows and how to run it.
//
//	guest (QEMU)                        daemon                     test program
//	+----------------------+   SOCKET   +-----------+   SOCKET   +----------------------------+
//	| load: numbered frames|----------->|  bridge   |----------->| peer: reports of each guest|  TX
//	| watch: reports of    |<-----------|           |<-----------|       a frame every 2 ms   |  RX
//	|   peer and the others|<----.      +-----------+            |       to each guest        |
//	+----------------------+     |        |                      +----------------------------+
//	                             '--------'  a frame every 10 ms from each guest to the next
//
// A report (package sequence) has the gaps between frames that arrived and the numbers that did not. The clocks of guests
// and host are brought together by the frame that took the shortest time. QEMU's own events say when a stream broke and
// when it was back.
package reconnect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab/sequence"
)

// A Direction is one way of a guest's frames in a round.
type Direction struct {
	// Outage is the time between the last frame that arrived before and the first that did after.
	Outage time.Duration
	// Back is the time from when the daemon took connections again until the first frame arrived; 0 when it never stopped.
	Back time.Duration
	// Missing is the distance in time between two frames that arrived with none but lost ones between them, the longest, by
	// their numbers and the pace at which they were sent: unlike Outage it does not grow with a machine that has no time for
	// the guest. Only for frames sent at a pace.
	Missing time.Duration
	// Lost is how many frames the gap cost. A guest sends on while it has no connection, so that it grows with the outage.
	Lost uint64
	// Alive says that frames arrive afterwards.
	Alive bool
}

// An Outcome is what one guest noticed in one round.
type Outcome struct {
	TX, RX, Others Direction // to the peer, from the peer, from another guest
	// Disconnects are QEMU's events, Disconnected the time from the first of them until it was connected for good.
	Disconnects  int
	Disconnected time.Duration
	// Revived says that the guest's TX was dead and that QEMU's stop and cont brought it back.
	Revived bool
}

// AroundTX is the direction from a guest to the peer, of the peer's report r. The peer connected to the new daemon at the
// time listens on its clock, as soon as that took connections, so that nothing can have come from it before.
func AroundTX(r sequence.Report, listens time.Duration, alive bool) Direction {
	return around(r.Over(listens), listens, alive)
}

// AroundRX is the direction from the peer to a guest, of the guest's report r. What the old daemon had passed on may still
// arrive after the new one listens, so it is the time at which the peer sent a frame that tells by whom it came. The clock of
// the peer is ahead of the guest's by ahead.
func AroundRX(r sequence.Report, listens, ahead time.Duration, alive bool) Direction {
	return around(r.Sent(listens), listens-ahead, alive)
}

// around is the direction with the gap g, whose receiver has listens on its clock.
func around(g sequence.Gap, listens time.Duration, alive bool) Direction {
	if !alive || g == (sequence.Gap{}) {
		return Direction{Alive: alive}
	}
	return Direction{Outage: g.Length(), Back: g.CameAfter - listens, Lost: g.Lost(), Alive: true}
}

// Longest returns the direction of a report for a daemon that never stopped taking connections. Frames were sent every pace,
// or as fast as possible for 0.
func Longest(r sequence.Report, pace time.Duration, alive bool) Direction {
	numbers := max(r.Hole.After-r.Hole.Before, 1) // 1 when none was lost
	return Direction{Outage: r.Longest().Length(), Missing: time.Duration(numbers) * pace, Lost: r.Lost, Alive: alive}
}

// A Spread is what a number of times were like, in milliseconds.
type Spread struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// spreadOf is the Spread of times. A percentile is the smallest value that at least so many percent do not exceed.
func spreadOf(times []time.Duration) Spread {
	if len(times) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(times))
	at := func(percent int) float64 {
		return millis(sorted[(len(sorted)*percent+99)/100-1])
	}
	return Spread{N: len(sorted), P50: at(50), P99: at(99), Max: millis(sorted[len(sorted)-1])}
}

func millis(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond)) / float64(time.Millisecond)
}

func (s Spread) String() string {
	if s.N == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f / %.0f / %.0f", s.P50, s.P99, s.Max)
}

// A Way is one direction over all rounds. Times are of those in which it was alive afterwards.
type Way struct {
	Outage Spread `json:"outage_ms"`
	Back   Spread `json:"back_ms"`
	// Missing is of frames that were sent at a pace.
	Missing Spread `json:"missing_ms"`
	// Lost is the median number of lost frames.
	Lost  uint64 `json:"lost_p50"`
	Alive int    `json:"alive_after"`
}

// A Row is one guest in one case.
type Row struct {
	Backend string `json:"backend"`
	Case    string `json:"case"`
	Guest   string `json:"guest"`
	Rounds  int    `json:"rounds"`

	Disconnects  int    `json:"disconnects"`
	Disconnected Spread `json:"disconnected_ms"`

	TX     Way `json:"tx"`
	RX     Way `json:"rx"`
	Others Way `json:"rx_from_other_guest"`

	Revived int `json:"revived_by_stop_cont"`
}

// Summary makes the row of outcomes.
func Summary(backend, name, guest string, outcomes []Outcome) Row {
	r := Row{Backend: backend, Case: name, Guest: guest, Rounds: len(outcomes)}
	var away []time.Duration
	for _, o := range outcomes {
		r.Disconnects += o.Disconnects
		if o.Disconnects > 0 && o.Disconnected > 0 {
			away = append(away, o.Disconnected)
		}
		if o.Revived {
			r.Revived++
		}
	}
	r.Disconnected = spreadOf(away)
	r.TX = way(outcomes, func(o Outcome) Direction { return o.TX })
	r.RX = way(outcomes, func(o Outcome) Direction { return o.RX })
	r.Others = way(outcomes, func(o Outcome) Direction { return o.Others })
	return r
}

func way(outcomes []Outcome, of func(Outcome) Direction) (w Way) {
	var outage, back, missing []time.Duration
	var lost []uint64
	for _, o := range outcomes {
		d := of(o)
		if !d.Alive {
			continue
		}
		w.Alive++
		outage, lost = append(outage, d.Outage), append(lost, d.Lost)
		if d.Back > 0 {
			back = append(back, d.Back)
		}
		if d.Missing > 0 {
			missing = append(missing, d.Missing)
		}
	}
	w.Outage, w.Back, w.Missing = spreadOf(outage), spreadOf(back), spreadOf(missing)
	if slices.Sort(lost); len(lost) > 0 {
		w.Lost = lost[(len(lost)-1)/2]
	}
	return w
}

// Table writes rows as a Markdown table.
func Table(rows []Row) string {
	cells := [][]string{{
		"back end", "case", "guest", "n", "disconnected", "TX outage", "RX outage", "TX back", "RX back",
		"TX missing", "RX missing", "lost TX", "lost RX",
		"TX alive", "RX alive", "revived",
	}}
	for _, r := range rows {
		alive := func(w Way) string { return fmt.Sprintf("%d/%d", w.Alive, r.Rounds) }
		disconnected := r.Disconnected.String()
		if r.Disconnects > r.Disconnected.N && r.Disconnected.N > 0 {
			disconnected += fmt.Sprintf(" (%d×)", r.Disconnects)
		}
		cells = append(cells, []string{
			r.Backend, r.Case, r.Guest, fmt.Sprint(r.Rounds), disconnected, r.TX.Outage.String(), r.RX.Outage.String(),
			r.TX.Back.String(), r.RX.Back.String(), r.TX.Missing.String(), r.RX.Missing.String(),
			fmt.Sprint(r.TX.Lost), fmt.Sprint(r.RX.Lost), alive(r.TX), alive(r.RX),
			fmt.Sprint(r.Revived),
		})
	}
	return table(cells)
}

func table(cells [][]string) string {
	var b strings.Builder
	for n, line := range cells {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
		if n == 0 {
			b.WriteString(strings.Repeat("| --- ", len(line)) + "|\n")
		}
	}
	return b.String()
}

// Limits are what a row must keep. A zero value is no limit.
type Limits struct {
	// Alive wants TX and RX alive after every round.
	Alive bool
	// BackP50 and BackMax bound the time until frames arrive again, in both directions.
	BackP50, BackMax time.Duration
	// OutageP50 bounds the outage, in both directions.
	OutageP50 time.Duration
	// MissingP50 bounds the time that numbers are missing, in both directions.
	MissingP50 time.Duration
	// Connected wants no disconnect.
	Connected bool
}

// Judge tells in what row breaks limits.
func Judge(r Row, l Limits) (complaints []string) {
	complain := func(format string, args ...any) {
		complaints = append(complaints, fmt.Sprintf("%s, %s, %s: ", r.Backend, r.Case, r.Guest)+fmt.Sprintf(format, args...))
	}
	if r.Rounds == 0 {
		complain("there was no round")
	}
	if l.Connected && r.Disconnects > 0 {
		complain("%d disconnects, want none", r.Disconnects)
	}
	for _, w := range []struct {
		name string
		Way
	}{{"TX", r.TX}, {"RX", r.RX}} {
		if l.Alive && w.Alive < r.Rounds {
			complain("%s alive after %d of %d rounds", w.name, w.Alive, r.Rounds)
		}
		over := func(what string, got float64, limit time.Duration) {
			if limit > 0 && got > millis(limit) {
				complain("%s %s %.1f ms, want at most %s", w.name, what, got, limit)
			}
		}
		over("back p50", w.Back.P50, l.BackP50)
		over("back max", w.Back.Max, l.BackMax)
		over("missing p50", w.Missing.P50, l.MissingP50)
		over("outage p50", w.Outage.P50, l.OutageP50)
		if l.BackP50+l.BackMax > 0 && w.Back.N < w.Alive {
			complain("%s: an outage was seen in %d of %d rounds, the measurement is wrong", w.name, w.Back.N, w.Alive)
		}
	}
	return complaints
}
