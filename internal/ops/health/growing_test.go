// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

func TestGrowing(t *testing.T) {
	add := func(drops map[string]uint64, reason string, n uint64) { drops[reason] += n }
	tests := []struct {
		name   string
		code   string
		little uint64 // in 10 s is none
		grow   func(c *status.Client, n uint64)
		text   string
	}{
		{"storm", status.Storm, 0, func(c *status.Client, n uint64) { add(c.ToNet.Drops, "drop_storm", n) }, "30 broadcasts"},
		{"slow", status.SlowClient, 0, func(c *status.Client, n uint64) { add(c.ToClient.Drops, "drop_queue_full", n) }, "30 frames for it were dropped"},
		{"oversize", status.OffloadMixed, 0, func(c *status.Client, n uint64) { add(c.ToClient.Drops, "drop_oversize", n) }, "30 in the last"},
		{"flapping", status.Flapping, 10, func(c *status.Client, n uint64) { c.MACMoves += n }, "30 times to client 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, 3)
			c := &w.Clients[1]
			tt.grow(c, 4000)
			p := w.look(t)[tt.code]
			assert.Equal(t, status.Notice, p.Severity, "it is not known when it was")
			assert.Contains(t, p.Text, "in the last 60 min")
			w.after(2 * time.Second)
			assert.NotContains(t, w.look(t), tt.code, "nothing since")
			w.after(8 * time.Second)
			tt.grow(c, tt.little)
			assert.NotContains(t, w.look(t), tt.code)
			w.after(10 * time.Second)
			tt.grow(c, 30)
			p = w.look(t)[tt.code]
			show(p)
			assert.Equal(t, status.Warning, p.Severity)
			assert.Equal(t, []uint64{2}, p.Clients)
			assert.Contains(t, p.Text, tt.text)
			w.after(2 * time.Second)
			assert.Contains(t, w.look(t), tt.code, "still in the window")
			w.after(10 * time.Second)
			w.look(t)
			w.after(10 * time.Second)
			assert.NotContains(t, w.look(t), tt.code, "over")
			w.after(time.Hour)
			tt.grow(c, 4000)
			p = w.look(t)[tt.code]
			assert.Equal(t, status.Notice, p.Severity, "some time in an hour")
			w.after(-time.Hour) // the clock is set back
			assert.NotPanics(t, func() { w.look(t) })
			w.Clients = append(w.Clients[:1:1], w.Clients[2]) // another one comes
			fresh := client(9)
			fresh.Age = 2
			tt.grow(&fresh, 30)
			w.Clients = append(w.Clients, fresh)
			assert.Equal(t, status.Warning, w.look(t)[tt.code].Severity, "it has all been just now")
		})
	}
}

func TestRefused(t *testing.T) {
	w := newWorld(t, 1)
	w.Totals.Refused = 5
	assert.Equal(t, status.Notice, w.look(t)[status.ClientsRefused].Severity)
	w.after(11 * time.Second)
	assert.NotContains(t, w.look(t), status.ClientsRefused)
	w.after(11 * time.Second)
	w.Totals.Refused = 7
	p := w.look(t)[status.ClientsRefused]
	show(p)
	assert.Equal(t, status.Warning, p.Severity)
	assert.Contains(t, p.Text, "2 connections were refused in the last 11 s because there were 256 clients")
}

func TestStartingForLong(t *testing.T) {
	w := newWorld(t, 0)
	w.Network.State = status.NetworkStarting
	assert.Equal(t, status.Notice, w.look(t)[status.NetworkStart].Severity)
	w.after(9 * time.Second)
	assert.Equal(t, status.Notice, w.look(t)[status.NetworkStart].Severity)
	w.after(time.Second)
	assert.Equal(t, status.Warning, w.look(t)[status.NetworkStart].Severity)
}

// TestStalledIsNotSlow: one cause is one problem.
func TestStalledIsNotSlow(t *testing.T) {
	w := newWorld(t, 2)
	w.look(t)
	w.after(10 * time.Second)
	c := &w.Clients[1]
	c.ToClient.Drops["drop_queue_full"] += 30
	c.Queue.Bytes, c.Queue.Stalled = 2<<20, 4.9
	assert.Contains(t, w.look(t), status.SlowClient)
	c.Queue.Stalled = 5
	found := w.look(t)
	assert.Contains(t, found, status.StalledClient)
	assert.NotContains(t, found, status.SlowClient)
}
