// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestStarving: of two programs that want the same processor all the time, one always waits.
func TestStarving(t *testing.T) {
	l := emptyLab(t)
	var allowed, one unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &allowed))
	for cpu := 0; ; cpu++ {
		if allowed.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	var pids []int
	for range 2 {
		p, err := l.Start("busy", "sh", "-c", "while :; do :; done")
		require.NoError(t, err)
		require.NoError(t, unix.SchedSetaffinity(p.Pid(), &one))
		pids = append(pids, p.Pid())
	}
	end := Starving(pids[0])
	require.Eventually(t, func() bool {
		return Waited(pids[0], true) > 50*time.Millisecond && Waited(pids[1], false) > 50*time.Millisecond
	}, time.Minute, 10*time.Millisecond)
	before := Waited(pids[0], true)
	require.Eventually(t, func() bool { return Waited(pids[0], true) > before+50*time.Millisecond }, time.Minute, 10*time.Millisecond)
	time.Sleep(2 * starvingTick) // for one more look
	assert.Greater(t, end(), 50*time.Millisecond)

	main := Waited(os.Getpid(), true)
	assert.GreaterOrEqual(t, Waited(os.Getpid(), false), main, "all of its threads")
	assert.Zero(t, Waited(1<<30, false), "nobody")
	assert.GreaterOrEqual(t, Starving(1<<30)(), time.Duration(0))
}
