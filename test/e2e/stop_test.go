// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/e2e/lab"
)

// QEMU that is blocked on a write when its peer closes comes back with its network dead: it receives, but never sends
// again (net/stream_data.c forgets to flush what was queued). The daemon therefore reads on until a client is quiet before
// it closes. These tests stop it under guests that send as fast as they can, then look whether frames arrive at a client
// of the next daemon.

// aliveFrames is how many frames must have come from a guest that sends: at full speed it takes some ten milliseconds.
const aliveFrames = 100

// testStopUnderLoad stops the daemon while it runs, and after it had no processor for a while, so that every socket is full.
func (r *reconnect) testStopUnderLoad(t *testing.T) {
	r.load(t)
	defer r.unload(t)
	for _, stalled := range []time.Duration{0, 300 * time.Millisecond, 0, 300 * time.Millisecond} {
		since := time.Now()
		took := r.stopStalled(t, stalled)
		assert.Zero(t, r.daemon.ExitCode(), "exit code")
		assert.Less(t, took, 2*time.Second, "time to stop")
		r.start(t, r.program)
		counter := r.count(t)
		r.reconnected(t, since)
		for _, g := range r.guests {
			alive := r.alive(counter, g, 15*time.Second)
			assert.True(t, alive, "%s sends nothing after a stop with %s stall", g.Name, stalled)
			t.Logf("stall %s, stopped in %s: %s has sent %d frames", stalled, took, g.Name, counter.From(g.MAC).Frames)
		}
		require.False(t, t.Failed())
		require.NoError(t, counter.Err())
		counter.Close()
	}
}

// testStopWithoutDrain shows that testStopUnderLoad is able to fail: with a daemon that closes at once, guests go dead. It
// also shows the way out that is left then, QEMU's stop and cont.
func (r *reconnect) testStopWithoutDrain(t *testing.T) {
	r.restart(t, syscall.SIGTERM, undrained)
	r.load(t)
	defer r.unload(t)
	died := map[string]int{}
	const rounds = 6
	for round := range rounds {
		since := time.Now()
		r.stopStalled(t, time.Duration(round%2)*300*time.Millisecond)
		r.start(t, undrained)
		counter := r.count(t)
		r.reconnected(t, since)
		for _, g := range r.guests {
			if r.alive(counter, g, 3*time.Second) {
				continue
			}
			died[g.Name]++
			for _, command := range []string{"stop", "cont"} {
				_, err := g.QMP().Execute(command, nil)
				require.NoError(t, err)
			}
			assert.True(t, r.alive(counter, g, 15*time.Second), "%s is alive after stop and cont", g.Name)
		}
		counter.Close()
		if len(died) == len(r.guests) {
			break
		}
	}
	t.Logf("rounds in which a guest's network died: %v", died)
	assert.Positive(t, died["small"], "a guest that is mostly blocked must die when nothing is drained, in %d rounds", rounds)
}

// load has both guests send to the counter, and waits until both do.
func (r *reconnect) load(t *testing.T) {
	t.Helper()
	counter := r.count(t)
	defer counter.Close()
	for _, g := range r.guests {
		require.NoError(t, g.Background(t.Context(), "guest load eth0 "+sinkMAC+" 1400", "load"))
		require.True(t, r.alive(counter, g, 10*time.Second), "%s sends", g.Name)
	}
}

func (r *reconnect) unload(t *testing.T) {
	for _, g := range r.guests {
		_, err := g.EndBackground(within(t, 20*time.Second), "load")
		assert.NoError(t, err)
	}
}

// stopStalled stops the daemon, which has had no processor for the given time, and returns how long it took from then on.
func (r *reconnect) stopStalled(t *testing.T, stalled time.Duration) time.Duration {
	t.Helper()
	if stalled > 0 {
		require.NoError(t, r.daemon.Signal(syscall.SIGSTOP))
		time.Sleep(stalled)
	}
	require.NoError(t, r.daemon.Signal(syscall.SIGTERM))
	start := time.Now()
	require.NoError(t, r.daemon.Signal(syscall.SIGCONT))
	require.NoError(t, r.daemon.Wait(within(t, 20*time.Second)))
	return time.Since(start)
}

func (r *reconnect) count(t *testing.T) *lab.Counter {
	t.Helper()
	c, err := r.lab.Count(r.socket, mustMAC(t, sinkMAC))
	require.NoError(t, err)
	return c
}

// alive waits up to d for frames of g.
func (r *reconnect) alive(c *lab.Counter, g *lab.Guest, d time.Duration) bool {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if c.From(g.MAC).Frames >= aliveFrames {
			return true
		}
	}
	return false
}
