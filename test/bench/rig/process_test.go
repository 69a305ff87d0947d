// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A program that does not end by SIGTERM is asked what it is doing.
func TestStopOfWhatIsStuck(t *testing.T) {
	const script = `trap '' TERM; trap 'echo stuck here >&2; exit 2' QUIT; touch "$0"; while :; do sleep 0.05; done`
	r := ForTest(t, Options{Daemon: os.Args[0], Kinds: []Kind{{Name: "stuck", Command: func(_ *Rig, l *Relay) ([]string, error) {
		return []string{"sh", "-c", script, l.Socket}, nil
	}}}})
	l, err := r.Start("stuck")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := os.Stat(l.Socket)
		return err == nil
	}, waitTime, time.Millisecond)
	l.stop = 2 * time.Second
	err = l.Stop()
	assert.ErrorContains(t, err, "did not end within 2s of SIGTERM")
	assert.ErrorContains(t, err, "stuck here")

	_, err = r.Start("unheard of")
	assert.ErrorContains(t, err, `unknown kind of relay "unheard of"`)
	_, err = r.Start(DaemonVmnet)
	assert.ErrorContains(t, err, "has not been prepared")
}

// fakeThread makes a directory of a thread as /proc has it.
func fakeThread(t *testing.T, dir, id string, voluntary, involuntary int) {
	t.Helper()
	path := filepath.Join(dir, "task", id)
	require.NoError(t, os.MkdirAll(path, 0o755))
	status := fmt.Appendf(nil, "Name:\tx\nvoluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t%d\n", voluntary, involuntary)
	require.NoError(t, os.WriteFile(filepath.Join(path, "status"), status, 0o600))
}

func TestThreadsThatEndDoNotSpoilTheSum(t *testing.T) {
	dir := t.TempDir()
	fakeThread(t, dir, "100", 10, 5)
	fakeThread(t, dir, "101", 9000, 900) // ends
	fakeThread(t, dir, "102", 8000, 800) // ends, and another gets its number
	before, err := readSwitches(dir)
	require.NoError(t, err)

	fakeThread(t, dir, "100", 17, 6)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "task", "101")))
	fakeThread(t, dir, "102", 2, 0)
	fakeThread(t, dir, "103", 1, 1) // has begun
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "task", "104"), 0o755))
	fakeThread(t, dir, "105", 0, 0)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "task", "105", "status"), nil, 0o600)) // both end while they are looked at
	after, err := readSwitches(dir)
	require.NoError(t, err)
	assert.Equal(t, uint64(12), after.since(before))

	_, err = readSwitches(filepath.Join(dir, "none"))
	assert.ErrorContains(t, err, "needs Linux")
}
