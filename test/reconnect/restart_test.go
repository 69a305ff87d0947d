// SPDX-License-Identifier: Apache-2.0

//go:build linux

package reconnect

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The two guests of TestRestart.
var both = []int{0, 1}

// stopLimit is how long a daemon may take to stop.
const stopLimit = 2 * time.Second

// promise is what a guest with reconnect-ms=500 has after a restart: frames in both directions soon after the daemon takes
// connections again. QEMU tries every 500 ms.
var promise = Limits{Alive: true, BackP50: 700 * time.Millisecond, BackMax: 1500 * time.Millisecond}

// restart stops the daemon with s, waits and starts it again.
func (r *rig) restart(s os.Signal, wait time.Duration) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		took := r.stop(t, s)
		if s == syscall.SIGTERM {
			assert.Zero(t, r.daemon.ExitCode())
			assert.Less(t, took, stopLimit+time.Second, "time to stop")
		}
		time.Sleep(wait)
		r.start(t)
	}
}

// keep runs rounds of c until they keep the limits, up to tries times: a machine that has no time for a second must not fail
// the test. The rows of all tries are reported.
func (c trial) keep(t *testing.T, l Limits, rounds, tries int) {
	t.Helper()
	for try := 1; ; try++ {
		var complaints []string
		for _, row := range c.run(t, rounds) {
			complaints = append(complaints, Judge(row, l)...)
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

// TestRestart stops, kills and replaces the daemon under guests that send all they can.
func TestRestart(t *testing.T) {
	r := newRig(t, programs.New)
	r.boot(t, r.reconnecting(t)...)
	r.load(t, both...)
	restart := func(name string, s os.Signal, wait time.Duration) trial {
		return trial{rig: r, name: name, guests: both, event: r.restart(s, wait), restarts: true, mayDie: s == syscall.SIGKILL}
	}
	t.Run("term", func(t *testing.T) {
		restart("TERM, start at once", syscall.SIGTERM, 0).keep(t, promise, times(6, 20), 3)
	})
	require.Empty(t, r.peer.Faults(), "the last thing that came must be a whole frame")
}
