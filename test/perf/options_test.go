// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, goos, words string
		want              options
	}{
		{"as socket_vmnet's", "darwin", "run", options{verb: "run", count: 2, seconds: 30, vm: "vz", out: "perf.out", rounds: 2}},
		{
			"all of its options", "darwin", "run -c 3 -t 5 -v qemu -b en0 -o dir",
			options{verb: "run", count: 3, seconds: 5, vm: "qemu", iface: "en0", out: "dir", rounds: 2},
		},
		{"attached", "darwin", "run -c3 -t5 -vkrunkit", options{verb: "run", count: 3, seconds: 5, vm: "krunkit", out: "perf.out", rounds: 2}},
		{"Linux has no vz", "linux", "run", options{verb: "run", count: 2, seconds: 30, vm: "qemu", out: "perf.out", rounds: 2}},
		{
			"old and new", "linux", "vm-to-vm -r 3",
			options{verb: "vm-to-vm", count: 2, seconds: 30, vm: "qemu", out: "perf.out", rounds: 3, old: "flood", new: "tree"},
		},
		{
			"old and new with values", "darwin", "host-to-vm -c 1 --old=/a --new /b",
			options{verb: "host-to-vm", count: 1, seconds: 30, vm: "vz", out: "perf.out", rounds: 2, old: "/a", new: "/b"},
		},
		{"reading needs no machines", "windows", "report -o dir", options{verb: "report", count: 2, out: "dir"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(strings.Fields(tt.words), tt.goos)
			require.NoError(t, err)
			got.words = nil
			assert.Equal(t, tt.want, got)
		})
	}
}

// TestBadInput shows that each mistake ends with code 1 and says what is wrong, and that nothing is done.
func TestBadInput(t *testing.T) {
	tests := []struct{ name, goos, words, want string }{
		{"nothing", "darwin", "", "no verb"},
		{"unknown verb", "darwin", "start", `"start" is no verb`},
		{"option in front", "darwin", "-c 2 run", `"-c" is no verb`},
		{"unknown option", "darwin", "run -x", "there is no option -x"},
		{"unknown long option", "darwin", "run --count=2", "there is no option --count"},
		{"value without option", "darwin", "run 3", `what is "3" for?`},
		{"option without value", "darwin", "run -c", "-c needs a value"},
		{"empty value", "darwin", "run --old=", "want a value that is not empty"},
		{"no machines", "darwin", "create -c 0", "-c 0: want a number from 1 to 64"},
		{"too many machines", "darwin", "create -c 65", "-c 65: want a number from 1 to 64"},
		{"less than none", "darwin", "create -c -1", "-c -1: want a number"},
		{"count that is no number", "darwin", "create -c two", "-c two: want a number"},
		{"time that is no number", "darwin", "run -t 1.5", "-t 1.5: want a number"},
		{"no time", "darwin", "run -t 0", "-t 0: want a number from 1"},
		{"type of another system", "linux", "run -v vz", "on Linux the types are qemu"},
		{"unknown type", "darwin", "run -v virtualbox", "on macOS the types are vz, qemu, krunkit, vzguest"},
		{"bridged on Linux", "linux", "run -b eth0", "-b: bridged mode needs macOS"},
		{"path as interface", "darwin", "run -b /tmp", "want the name of an interface"},
		{"other systems", "freebsd", "run", "machines are measured on macOS and Linux, this is freebsd"},
		{"vm to vm with one", "darwin", "vm-to-vm -c 1 --old /a", "vm-to-vm needs two machines"},
		{"comparison without old", "darwin", "vm-to-vm", "--old is missing"},
		{"stand-in has no host", "linux", "host-to-vm", "the stand-in joins machines and has no host behind it"},
		{"daemon for a comparison", "linux", "vm-to-vm -s /a", "-s is for the verb run"},
		{"old daemon for run", "linux", "run --old /a", "--old and --new are for the verbs"},
		{"rounds for run", "linux", "run -r 2", "-r is for the verbs"},
		{"daemon that is not there", "darwin", "run -s /nowhere", "find the daemon /nowhere"},
		{"daemon that is a directory", "darwin", "run -s /tmp", "neither a socket nor a program"},
		{"no daemon", "darwin", "run", "Start the daemon, or name one with -s"},
		{"flood on macOS", "darwin", "vm-to-vm --old flood", "find the daemon flood"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.goos)
			assert.Equal(t, 1, w.main(t.Context(), strings.Fields(tt.words)))
			assert.Contains(t, w.stderr.String(), tt.want)
			assert.True(t, strings.HasPrefix(w.stderr.String(), "perf: "), "one line first: %q", w.stderr)
			assert.Empty(t, w.stdout.String())
			assert.Empty(t, w.calls(), "nothing is called")
			assert.NoDirExists(t, "perf.out")
			assert.NoDirExists(t, w.cache)
		})
	}
}

func TestHelp(t *testing.T) {
	for _, words := range []string{"-h", "--help", "help", "run -h", "create -c 2 --help"} {
		w := newWorld(t, "darwin")
		assert.Zero(t, w.main(t.Context(), strings.Fields(words)), words)
		assert.Equal(t, usage, w.stdout.String())
	}
	for _, v := range verbs {
		assert.Contains(t, usage, v)
	}
}

func TestMissingPrograms(t *testing.T) {
	t.Run("limactl", func(t *testing.T) {
		w := newWorld(t, "darwin", "iperf3")
		w.listen(filepath.Join(w.runDir, "socket_vmnet"))
		for _, verb := range []string{"create", "run", "delete"} {
			assert.Equal(t, 1, w.perf(verb))
		}
		assert.Equal(t, 3, strings.Count(w.stderr.String(), "limactl is missing: brew install lima"))
		assert.NoDirExists(t, w.out())
	})
	t.Run("iperf3 on macOS", func(t *testing.T) {
		w := newWorld(t, "darwin", "limactl")
		w.listen(filepath.Join(w.runDir, "socket_vmnet"))
		w.ok("create")
		assert.Equal(t, 1, w.perf("run"))
		assert.Contains(t, w.stderr.String(), "iperf3 is missing: newer releases of macOS have it as iperf3-darwin")
		assert.NotContains(t, quote(w.calls()), "start")
	})
	t.Run("only an installed iperf3 on macOS", func(t *testing.T) {
		w := newWorld(t, "darwin", "limactl", "iperf3")
		w.listen(filepath.Join(w.runDir, "socket_vmnet"))
		w.ok("create")
		w.ok("run")
		assert.Contains(t, w.stdout.String(), `With "No route to host" allow this terminal in Privacy & Security > Local Network`)
	})
	t.Run("iperf3 on Linux", func(t *testing.T) {
		w := newWorld(t, "linux", "qemu-system-x86_64")
		assert.Equal(t, 1, w.perf("create"))
		assert.Contains(t, w.stderr.String(), "iperf3 is missing: sudo apt-get install iperf3")
	})
	t.Run("guest kernel and QEMU", func(t *testing.T) {
		w := newWorld(t, "linux", "iperf3")
		t.Setenv("E2E_CACHE", w.path("nothing"))
		assert.Equal(t, 1, w.perf("create"))
		assert.Contains(t, w.stderr.String(), "run test/e2e/setup.sh first")
	})
	t.Run("no machines", func(t *testing.T) {
		w := newWorld(t, "darwin")
		w.listen(filepath.Join(w.runDir, "socket_vmnet"))
		assert.Equal(t, 1, w.perf("run"))
		assert.Contains(t, w.stderr.String(), "there is no machine perf1: test/perf.sh create -c 2")
		assert.NoDirExists(t, w.out())
	})
}

// TestScript calls perf.sh itself.
func TestScript(t *testing.T) {
	script, err := filepath.Abs("../perf.sh")
	require.NoError(t, err)
	call := func(env string, args ...string) (string, error) {
		cmd := exec.Command(script, args...)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), env)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := call("GO=/nowhere/go", "run")
	assert.Equal(t, "perf: Go is missing, version 1.26 or newer: https://go.dev/dl/, or name it with GO=/path/to/go\n", out)
	assert.EqualError(t, err, "exit status 1")

	out, err = call("PERF_NOTHING=", "--help")
	require.NoError(t, err, out)
	assert.Equal(t, usage, out)

	out, err = call("PERF_NOTHING=", "report", "-o", "two words")
	assert.Equal(t, "perf: read results: stat two words: no such file or directory. Name the directory with -o, or make results: test/perf.sh run\n", out)
	assert.EqualError(t, err, "exit status 1")
}
