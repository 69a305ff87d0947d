// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// linuxWorld is a world on Linux with a set-up of test/e2e that has all the names.
func linuxWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "linux")
	cache := w.path("e2e")
	t.Setenv("E2E_CACHE", cache)
	t.Setenv("E2E_QEMU", w.path("bin/qemu-system-x86_64"))
	require.NoError(t, os.MkdirAll(filepath.Join(cache, "guest-1", "modules"), 0o700))
	for _, name := range []string{"vmlinuz", "busybox"} {
		require.NoError(t, os.WriteFile(filepath.Join(cache, "guest-1", name), nil, 0o600))
	}
	return w
}

func TestCreateAndDeleteOnLinux(t *testing.T) {
	w := linuxWorld(t)
	w.ok("create", "-c", "3")
	w.ok("create", "-c", "1")
	assert.Contains(t, w.stdout.String(), "perf1 is there already")
	q := cabinet{w.setting}
	seen := map[string]bool{}
	for n := 1; n <= 3; n++ {
		m, err := q.describe(n)
		require.NoError(t, err)
		seen[m.MAC] = true
	}
	assert.Len(t, seen, 3, "addresses of their own")

	require.NoError(t, os.WriteFile(filepath.Join(q.dir(1), "notes"), nil, 0o600))
	assert.Equal(t, 1, w.perf("delete", "-c", "2"))
	assert.FileExists(t, filepath.Join(q.dir(1), "notes"), "what somebody has put there stays")
	assert.NoDirExists(t, q.dir(2))
	assert.Contains(t, w.stdout.String(), "perf3 stays: test/perf.sh delete -c 3")
}

func TestForeignDirectoriesAreLeftAlone(t *testing.T) {
	w := linuxWorld(t)
	q := cabinet{w.setting}
	tests := []struct{ name, file, text, want string }{
		{"other files", "letter", "x", "is no machine of test/perf.sh and is left alone"},
		{"another program's", machineFile, `{"made_by":"virt-manager","mac":"52:54:00:00:00:01"}`, "is no machine of test/perf.sh"},
		{"cut short", machineFile, `{"made`, "delete that directory and create the machine again"},
		{"no address", machineFile, `{"made_by":"` + marker + `"}`, "is no machine of test/perf.sh"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(q.dir(1)))
			require.NoError(t, os.MkdirAll(q.dir(1), 0o700))
			file := filepath.Join(q.dir(1), tt.file)
			require.NoError(t, os.WriteFile(file, []byte(tt.text), 0o600))
			assert.Equal(t, 1, w.perf("create"))
			if i > 0 {
				assert.Equal(t, 1, w.perf("delete"))
			}
			assert.Equal(t, 1, w.perf("run"))
			assert.Contains(t, w.stderr.String(), tt.want)
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Equal(t, tt.text, string(b))
		})
	}
}

func TestGuestFiles(t *testing.T) {
	w := newWorld(t, "linux")
	require.NoError(t, os.WriteFile(w.path("lib/libgcc_s.so.1"), nil, 0o600))
	files, err := guestFiles(t.Context(), "/usr/bin/iperf3", w.dir)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{
		"perf/iperf3":               "/usr/bin/iperf3",
		"perf/libiperf.so.0":        w.path("lib/libiperf.so.0"),
		"perf/ld-linux-x86-64.so.2": w.path("lib/ld-linux-x86-64.so.2"),
		"perf/libgcc_s.so.1":        w.path("lib/libgcc_s.so.1"),
		"lab/iperf3":                w.path("iperf3"),
	}, files)
	b, err := os.ReadFile(w.path("iperf3"))
	require.NoError(t, err)
	assert.Equal(t, "#!/bin/sh\nexec /perf/ld-linux-x86-64.so.2 --library-path /perf /perf/iperf3 \"$@\"\n", string(b))

	require.NoError(t, os.Remove(w.path("bin/ldd")))
	_, err = guestFiles(t.Context(), "/usr/bin/iperf3", w.dir)
	assert.ErrorContains(t, err, "find the libraries of /usr/bin/iperf3 for the guests")
}

func TestFloodSources(t *testing.T) {
	for _, f := range floodSources {
		assert.FileExists(t, filepath.Join("../bench/rig/csrc", f))
	}
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]float64{
		"0:00.03": 0.03, "12:34.50": 754.5, "1:02:03": 3723, "01:02:03.25": 3723.25, "2-01:00:00": 2*86400 + 3600, "0:01,50": 1.5,
	} {
		got, err := parseTime(text)
		require.NoError(t, err, text)
		assert.InDelta(t, want, got, 1e-9, text)
	}
	for _, text := range []string{"", "-", "5", "a:b", "1:2:3:4", "x-1:00", "-1:00", "1:-2"} {
		_, err := parseTime(text)
		assert.Error(t, err, text)
	}
}

// TestConsumption burns processor time and looks for it.
func TestConsumption(t *testing.T) {
	if runtime.GOOS != "linux" {
		_, err := procConsumption(os.Getpid())
		require.Error(t, err)
		return
	}
	before, err := procConsumption(os.Getpid())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		for range 1_000_000 {
			_ = time.Now()
		}
		after, err := procConsumption(os.Getpid())
		return err == nil && after.cpu-before.cpu > 0.05
	}, patience, time.Millisecond)
	assert.NotZero(t, *before.voluntary)
	assert.Greater(t, *before.residentKiB, *before.anonKiB)

	_, err = procConsumption(1 << 30)
	assert.Error(t, err)
}

func TestListener(t *testing.T) {
	w := newWorld(t, "linux")
	w.listen(w.path("s"))
	pid, err := listener(w.path("s"))
	require.NoError(t, err)
	if runtime.GOOS == "linux" || runtime.GOOS == "darwin" {
		assert.Equal(t, os.Getpid(), pid)
	}
	_, err = listener(w.path("nobody"))
	assert.Error(t, err)
}
