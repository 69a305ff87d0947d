// SPDX-License-Identifier: Apache-2.0

//go:build linux

package reconnect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab/labtest"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab/sequence"
)

// settle is how long frames are followed after a guest is alive.
const settle = 100 * time.Millisecond

// roundTime is how long a round may take on average, or there are fewer of them, minRounds at least. It takes three seconds
// on an idle machine.
const (
	roundTime = 5 * time.Second
	minRounds = 5
)

// trial is a number of rounds of one case.
type trial struct {
	rig    *rig
	name   string
	guests []int // those that are looked at
	// event is what is done to the daemon. It returns when the daemon takes connections, if it had stopped doing so.
	event func(t *testing.T)
	// restarts says that the daemon loses its clients.
	restarts bool
	// mayDie says that a guest's TX may be dead afterwards. It is then revived.
	mayDie bool
	// pace is the time between two frames that a guest sends to the peer, 0 for all it can.
	pace time.Duration
	// least is how many rounds there are even when they take long.
	least int
	// enough ends a run before it has all its rounds; nil does not.
	enough func(outcomes [][]Outcome) bool
}

// run runs rounds of the case and adds a row for each guest to the results.
func (c trial) run(t *testing.T, rounds int) []Row {
	t.Helper()
	outcomes := make([][]Outcome, len(c.rig.guests))
	began := time.Now()
	for n := range rounds {
		if n >= max(c.least, minRounds) && time.Since(began) > time.Duration(rounds)*roundTime {
			break // the machine has other things to do
		}
		for i, o := range c.round(t) {
			outcomes[i] = append(outcomes[i], o)
		}
		if c.enough != nil && c.enough(outcomes) {
			break
		}
	}
	var rows []Row
	for _, i := range c.guests {
		rows = append(rows, Summary(c.rig.backend, c.name, c.rig.names[i], outcomes[i]))
	}
	results.add(rows...)
	t.Logf("%s\n%s", c.name, Table(rows))
	return rows
}

// round does it once and tells what each guest noticed.
func (c trial) round(t *testing.T) map[int]Outcome {
	t.Helper()
	r := c.rig
	r.peer.Cut()
	labtest.Each(t, r.guests, func(_ int, g *lab.Guest) error {
		_, err := r.seen(t.Context(), g, "cut")
		return err
	})
	began := time.Now()
	c.event(t)
	var listens time.Time
	if c.restarts {
		var err error
		listens, err = r.peer.WaitJoined(within(t, patience), began)
		require.NoError(t, err)
	}
	lives := c.lives(t)
	time.Sleep(settle)
	outcomes := map[int]Outcome{}
	for _, i := range c.guests {
		outcomes[i] = c.outcome(t, i, began, listens, lives[i])
	}
	for _, i := range c.guests {
		if o := outcomes[i]; !o.TX.Alive && c.mayDie {
			r.revive(t, i)
			o.Revived = true
			outcomes[i] = o
		}
	}
	return outcomes
}

// lives waits until the guests are alive, for a short time only where they need not be.
func (c trial) lives(t *testing.T) []life {
	t.Helper()
	wait := patience
	if c.mayDie {
		wait = hopeless
	}
	lives, err := c.rig.alive(t.Context(), wait, c.guests...)
	require.NoError(t, err)
	return lives
}

// outcome is what guest i noticed since began.
func (c trial) outcome(t *testing.T, i int, began, listens time.Time, l life) Outcome {
	t.Helper()
	r, g := c.rig, c.rig.guests[i]
	seen, err := r.seen(t.Context(), g, "report")
	require.NoError(t, err)
	tx, rx := r.peer.From(g.MAC), seen[peerMAC]
	var others sequence.Report
	for from, report := range seen {
		if from != peerMAC {
			others = report
		}
	}
	o := Outcome{}
	o.Disconnects, o.Disconnected = away(g, began)
	if !c.restarts {
		o.TX, o.RX = Longest(tx, c.pace, l.tx), Longest(rx, peerEvery, l.rx)
		o.Others = Longest(others, othersEvery, others.Frames > 0)
		return o
	}
	at := r.peer.Clock(listens)
	o.TX, o.RX, o.Others = AroundTX(tx, at, l.tx), AroundRX(rx, at, tx.Offset, l.rx), Longest(others, 0, others.Frames > 0)
	return o
}

// away is how often and for how long QEMU had no connection since began, until it was there for good.
func away(g *lab.Guest, began time.Time) (n int, d time.Duration) {
	var gone, back time.Time
	for _, e := range g.QMP.Events() {
		switch {
		case e.Time.Before(began):
		case e.Name == lab.EventStreamDisconnected:
			if n++; n == 1 {
				gone = e.Time
			}
		case e.Name == lab.EventStreamConnected:
			back = e.Time
		}
	}
	if n == 0 || back.IsZero() {
		return n, 0
	}
	return n, back.Sub(gone)
}
