// SPDX-License-Identifier: Apache-2.0

package reconnect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab/sequence"
)

const ms = time.Millisecond

// synthetic is the report of a receiver that got a frame every 2 ms, apart from those sent between from and to. Its clock is
// 10 s ahead of the sender's, and a frame is on its way for 1 ms, or until it is late.
func synthetic(from, to, late time.Duration) sequence.Report {
	var t sequence.Tracker
	for n := uint64(1); n <= 5000; n++ {
		sent := time.Duration(n) * 2 * ms
		came := sent + ms
		if sent < from {
			came = max(came, min(late, came+100*ms))
		}
		if sent < from || sent >= to {
			t.Take(sequence.Frame{Number: n, Sent: sent, Run: 1}, came+10*time.Second, true)
		}
	}
	return t.Report()
}

// TestMeasurement: an outage that was made comes out as it was made.
func TestMeasurement(t *testing.T) {
	r := synthetic(2000*ms, 3400*ms, 0)
	want := Direction{Outage: 1402 * ms, Back: 401 * ms, Lost: 700, Alive: true}
	assert.Equal(t, want, AroundTX(r, 13000*ms, true))
	assert.Equal(t, want, AroundRX(r, 3000*ms, -10*time.Second, true))
	assert.Equal(t, Direction{Outage: 1402 * ms, Missing: 1402 * ms, Lost: 700, Alive: true}, Longest(r, 2*ms, true))
	assert.Equal(t, Direction{Outage: 1402 * ms, Lost: 700, Alive: true}, Longest(r, 0, true))
	assert.Equal(t, Direction{Alive: true}, AroundTX(r, 11000*ms, true), "frames came all the time then")
	assert.Equal(t, Direction{}, AroundTX(r, 13000*ms, false))
	assert.Equal(t, Direction{}, AroundRX(r, 3000*ms, -10*time.Second, false))
	assert.Equal(t, Direction{Missing: 2 * ms, Alive: true}, Longest(synthetic(0, 0, 0), 2*ms, true))

	// The receiver had no processor when the daemon was killed: what was on its way arrives after the new one listens.
	r = synthetic(2000*ms, 2500*ms, 2050*ms)
	assert.Equal(t, Direction{Outage: 451 * ms, Back: 481 * ms, Lost: 250, Alive: true}, AroundRX(r, 2020*ms, -10*time.Second, true))
	assert.Equal(t, 502*ms, Longest(r, 2*ms, true).Missing, "as many as if it had had one")
}

// good is a round as it should be.
func good() Outcome {
	d := Direction{Outage: 1500 * ms, Back: 400 * ms, Lost: 700, Alive: true}
	return Outcome{TX: d, RX: d, Others: d, Disconnects: 1, Disconnected: 501 * ms}
}

func rounds(n int, change func(o *Outcome)) []Outcome {
	outcomes := make([]Outcome, n)
	for i := range outcomes {
		outcomes[i] = good()
	}
	change(&outcomes[n-1])
	return outcomes
}

// TestJudge: what must fail does fail.
func TestJudge(t *testing.T) {
	limits := Limits{Alive: true, BackP50: 700 * ms, BackMax: 1500 * ms, OutageP50: 2 * time.Second}
	tests := []struct {
		name   string
		rounds int
		change func(o *Outcome)
		limits Limits
		want   []string // parts of the complaints, in order
	}{
		{"good", 3, func(*Outcome) {}, limits, nil},
		{"no limits", 1, func(o *Outcome) { o.TX = Direction{} }, Limits{}, nil},
		{"TX dead", 3, func(o *Outcome) { o.TX = Direction{} }, limits, []string{"TX alive after 2 of 3 rounds"}},
		{"RX dead", 3, func(o *Outcome) { o.RX = Direction{} }, limits, []string{"RX alive after 2 of 3 rounds"}},
		{"late once", 3, func(o *Outcome) { o.RX.Back = 1501 * ms }, limits, []string{"RX back max 1501.0 ms, want at most 1.5s"}},
		{"late always", 1, func(o *Outcome) { o.TX.Back = 701 * ms }, Limits{BackP50: 700 * ms}, []string{"TX back p50 701.0 ms"}},
		{"long", 1, func(o *Outcome) { o.TX.Outage = 4 * time.Second }, Limits{OutageP50: time.Second * 2}, []string{
			"TX outage p50 4000.0 ms",
		}},
		{"missing", 3, func(o *Outcome) { o.RX.Missing = 201 * ms }, Limits{MissingP50: 200 * ms}, []string{"RX missing p50 201.0 ms"}},
		{"disconnected", 3, func(*Outcome) {}, Limits{Connected: true}, []string{"3 disconnects, want none"}},
		{"no outage seen", 3, func(o *Outcome) { o.TX.Back = 0 }, limits, []string{"TX: an outage was seen in 2 of 3 rounds"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Judge(Summary("b", "c", "g", rounds(tt.rounds, tt.change)), tt.limits)
			require.Len(t, got, len(tt.want), "%q", got)
			for i, want := range tt.want {
				assert.Contains(t, got[i], "b, c, g: "+want)
			}
		})
	}
}
