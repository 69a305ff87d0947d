// SPDX-License-Identifier: Apache-2.0

//go:build linux

package reconnect

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
)

// both are the two guests.
var both = []int{0, 1}

// promise is what a guest with reconnect-ms=500 has after a restart: frames in both directions soon after the daemon takes
// connections again. QEMU tries every 500 ms.
var promise = Limits{Alive: true, BackP50: 700 * time.Millisecond, BackMax: 1500 * time.Millisecond}

// stopLimit is how long a daemon may take to stop, at the median: a busy machine adds to it.
const stopLimit = 2 * time.Second

// tries is how often a case may be tried to keep its limits.
const tries = 3

// TestRestart stops and kills the daemon under guests that send all they can.
func TestRestart(t *testing.T) {
	r := newRig(t, programs.New)
	r.boot(t, r.reconnecting(t)...)
	r.load(t, both...)
	t.Run("TERM", r.testTerm)
	t.Run("TERM after a stall", r.testStall)
	t.Run("KILL with a keeper", r.testKept)
	r.wholeFrames(t)
	if !*long {
		return
	}
	t.Run("TERM and a pause", r.testPauses)
	t.Run("KILL", func(t *testing.T) {
		c := r.restarts(syscall.SIGKILL, 0)
		c.least = 20
		c.keep(t, Limits{}, 20, 1)
	})
	t.Run("without the drain", r.testUndrained)
}

// wholeFrames wants the last thing that came to the peer from each daemon to be a whole frame. The peer never stops sending, so
// that now and then a frame of its own comes between the daemon's last look and the end: a reset.
func (r *rig) wholeFrames(t *testing.T) {
	t.Helper()
	resets := 0
	for _, err := range r.peer.Faults() {
		assert.ErrorIs(t, err, syscall.ECONNRESET)
		assert.NotContains(t, err.Error(), "cut")
		resets++
	}
	t.Logf("connections of the peer that ended in a reset: %d", resets)
}

// TestRestartOnVmnet is the same with the vmnet back end on the simulator, where a killed owner's subnet stays busy for a
// while. It is in the long version only: test/e2e has a restart on vmnet, the daemon's own tests have one of a killed daemon.
func TestRestartOnVmnet(t *testing.T) {
	if !*long {
		return
	}
	r := newRig(t, programs.Sim)
	r.boot(t, r.reconnecting(t)...)
	r.load(t, both...)
	t.Run("TERM", func(t *testing.T) { r.restarts(syscall.SIGTERM, 0).keep(t, promise, 10, tries) })
	t.Run("TERM after a stall", r.testStall)
	t.Run("KILL", func(t *testing.T) { r.restarts(syscall.SIGKILL, 0).keep(t, Limits{}, 5, 1) })
}

// restarts is the case of a daemon that gets s, and is started again after a while.
func (r *rig) restarts(s syscall.Signal, wait time.Duration) trial {
	names := map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGKILL: "KILL"}
	name := names[s] + ", start at once"
	if wait > 0 {
		name = fmt.Sprintf("%s, start after %s", names[s], wait)
	}
	return trial{
		rig: r, name: name, guests: both, restarts: true, mayDie: s == syscall.SIGKILL,
		event: func(t *testing.T) {
			r.stop(t, s)
			time.Sleep(wait)
			r.start(t)
		},
	}
}

// keep runs rounds of c until they keep the limits, up to so many tries: a machine that has no time for a second must not
// fail the test. The rows of all tries are reported.
func (c trial) keep(t *testing.T, l Limits, rounds, tries int) {
	t.Helper()
	name := c.name
	for try := 1; ; try++ {
		if try > 1 {
			c.name = fmt.Sprintf("%s (try %d)", name, try)
		}
		c.rig.stops = nil
		var complaints []string
		for _, row := range c.run(t, rounds) {
			complaints = append(complaints, Judge(row, l)...)
		}
		s := spreadOf(c.rig.stops)
		if l.BackP50 > 0 && s.P50 > millis(stopLimit) {
			complaints = append(complaints, fmt.Sprintf("time to stop: %s ms, want at most %s", s, stopLimit))
		}
		if len(complaints) == 0 {
			return
		}
		t.Logf("try %d: %q", try, complaints)
		if try == tries {
			assert.Empty(t, complaints)
			return
		}
	}
}

// testTerm is the case that counts.
func (r *rig) testTerm(t *testing.T) {
	c := r.restarts(syscall.SIGTERM, 0)
	c.least = 20
	c.keep(t, promise, times(3, 20), tries)
}

// testPauses leaves the guests without a daemon for a while. Those with a way back are alive as if it had been short.
func (r *rig) testPauses(t *testing.T) {
	r.restarts(syscall.SIGTERM, time.Second).keep(t, promise, 5, tries)
	r.restarts(syscall.SIGTERM, 5*time.Second).keep(t, promise, 2, tries)
	r.restarts(syscall.SIGTERM, time.Minute).keep(t, promise, 1, tries)
}

// testStall stops a daemon that had no processor for a while, so that every socket is full.
func (r *rig) testStall(t *testing.T) {
	r.stalled().keep(t, Limits{Alive: true}, times(1, 5), 1)
}

// stalled is the case of a daemon that is stopped when every socket is full.
func (r *rig) stalled() trial {
	c := r.restarts(syscall.SIGTERM, 0)
	c.name = "TERM after 0.3 s without a processor"
	c.event = func(t *testing.T) {
		require.NoError(t, r.daemon.Signal(syscall.SIGSTOP))
		time.Sleep(300 * time.Millisecond)
		require.NoError(t, r.daemon.Signal(syscall.SIGTERM))
		start := time.Now()
		require.NoError(t, r.daemon.Signal(syscall.SIGCONT))
		require.NoError(t, r.daemon.Wait(within(t, patience)))
		r.stops = append(r.stops, time.Since(start))
		r.start(t)
	}
	return c
}

// testKept kills the daemon of a keeper, which starts it again: no guest is dead afterwards. Two crashes within 10 s are the keeper's end.
func (r *rig) testKept(t *testing.T) {
	const apart = 10100 * time.Millisecond
	r.stop(t, syscall.SIGTERM)
	r.args = append(r.args, "--keeper")
	r.start(t)
	_, err := r.alive(t.Context(), patience, both...)
	require.NoError(t, err)
	c, last := r.restarts(syscall.SIGKILL, 0), time.Time{}
	c.name, c.mayDie = "KILL with --keeper", false
	c.event = func(t *testing.T) {
		time.Sleep(max(2*time.Second, time.Until(last.Add(apart)))) // a client is stored after a second
		pid := r.pid(t)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		require.Eventually(t, func() bool { now := r.pid(t); return now != pid && now != 0 }, patience, time.Millisecond)
		last = time.Now()
	}
	c.least = times(1, 50)
	c.keep(t, Limits{Alive: true}, c.least, 1)
	r.stop(t, syscall.SIGTERM)
	r.args = nil
	r.start(t)
	_, err = r.alive(t.Context(), patience, both...)
	require.NoError(t, err)
}

// pid is that of the daemon; 0 if there is none at the moment.
func (r *rig) pid(t *testing.T) int {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), r.program, "status", "--json", r.socket).Output()
	var s struct{ Daemon struct{ PID int } }
	if err != nil || json.Unmarshal(out, &s) != nil {
		return 0
	}
	return s.Daemon.PID
}

// testUndrained shows that the cases above are able to fail: with a daemon whose drain panics, guests go dead. QEMU's stop
// and cont are what is left then.
func (r *rig) testUndrained(t *testing.T) {
	r.stop(t, syscall.SIGTERM)
	points := filepath.Join(t.TempDir(), "faults")
	require.NoError(t, os.WriteFile(points, []byte("1\nlink.discard 1000000\n"), 0o600))
	t.Setenv(faults.Env, points)
	r.program = programs.Faulty
	r.start(t)
	_, err := r.alive(t.Context(), patience, both...)
	require.NoError(t, err)
	c, stalled := r.restarts(syscall.SIGTERM, 0), r.stalled()
	plain, n := c.event, 0
	c.name, c.mayDie = "TERM of a daemon built without the drain", true
	c.event = func(t *testing.T) {
		if n++; n%2 == 0 {
			stalled.event(t)
		} else {
			plain(t)
		}
	}
	died := func(rows []Row) bool {
		return len(Judge(rows[0], Limits{Alive: true}))+len(Judge(rows[1], Limits{Alive: true})) > 0
	}
	const least, most = 6, 20
	c.enough = func(outcomes [][]Outcome) bool {
		return len(outcomes[0]) >= least && died([]Row{Summary("", "", "", outcomes[0]), Summary("", "", "", outcomes[1])})
	}
	assert.True(t, died(c.run(t, most)), "a guest that is blocked must die when nothing is drained, in %d rounds", most)
}

// stop sends s to the daemon and waits for its end.
func (r *rig) stop(t *testing.T, s os.Signal) {
	t.Helper()
	took, err := r.daemon.Stop(within(t, patience), s)
	require.NoError(t, err)
	if s == syscall.SIGTERM {
		assert.Zero(t, r.daemon.ExitCode())
		r.stops = append(r.stops, took)
	}
}
