// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// put writes a file below the world's directory for results.
func (w *world) put(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.out(), name)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
}

func TestClaim(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(w *world)
		want    string // "" for success
	}{
		{"not there", func(*world) {}, ""},
		{"empty", func(w *world) { require.NoError(w.t, os.Mkdir(w.out(), 0o700)) }, ""},
		{"its own", func(w *world) { w.put(marker, ""); w.put("rounds", "") }, ""},
		{"somebody else's", func(w *world) { w.put("thesis.tex", "") }, "is not empty and was not made by test/perf.sh, nothing was changed"},
		{"a file", func(w *world) { require.NoError(w.t, os.WriteFile(w.out(), nil, 0o600)) }, "make a directory for results, choose another with -o"},
		{"below a file", func(w *world) {
			require.NoError(w.t, os.WriteFile(w.path("file"), nil, 0o600))
			require.NoError(w.t, os.Symlink("file/x", w.out()))
		}, "choose another with -o"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := created(t, "1")
			tt.prepare(w)
			before, _ := os.ReadDir(w.out())
			code := w.perf("run", "-c", "1")
			if tt.want == "" {
				assert.Zero(t, code)
				assert.FileExists(t, filepath.Join(w.out(), marker))
				return
			}
			assert.Equal(t, 1, code)
			assert.Contains(t, w.stderr.String(), tt.want)
			assert.NotContains(t, quote(w.calls()), "limactl start")
			after, _ := os.ReadDir(w.out())
			assert.Len(t, after, len(before))
		})
	}
}

// TestReportOfOthers reads what socket_vmnet's own test leaves: iperf3's results and nothing else.
func TestReportOfOthers(t *testing.T) {
	w := newWorld(t, "darwin")
	for _, name := range []string{"shared-vz-1/host-to-vm", "shared-vz-1/vm-to-host", "bridged-qemu-2/vm-to-vm"} {
		w.put(name+".json", goodResult)
	}
	w.put("perf.log", "whatever")
	w.ok("report")
	assert.Equal(t, strings.TrimLeft(`
| network-machines-count | direction  | Gbit/s | retransmits | daemon: CPU s/GB | Mbit/s per % CPU | waits/s | preempted/s | MiB |
|------------------------|------------|-------:|------------:|-----------------:|-----------------:|--------:|------------:|----:|
| bridged-qemu-2         | vm-to-vm   |  2.400 |           7 |                - |                - |       - |           - |   - |
| shared-vz-1            | host-to-vm |  2.400 |           7 |                - |                - |       - |           - |   - |
| shared-vz-1            | vm-to-host |  2.400 |           7 |                - |                - |       - |           - |   - |

`, "\n"), w.stdout.String())
	assert.NoFileExists(t, filepath.Join(w.out(), marker), "reading writes nothing")
}

func TestReportOfHalfResults(t *testing.T) {
	good := map[string]string{"shared-vz-1/host-to-vm.json": goodResult}
	tests := []struct {
		name string
		file string
		text string
		want string
	}{
		{"cut short", "shared-vz-2/vm-to-vm.json", goodResult[:200], "vm-to-vm.json: no iperf3 result, or half of one"},
		{"empty", "shared-vz-2/vm-to-vm.json", "", "no iperf3 result, or half of one"},
		{"another program's", "shared-vz-2/vm-to-vm.json", "{}", "it has no end.sum_received"},
		{"iperf3 failed", "shared-vz-2/vm-to-vm.json", `{"error": "the server is busy"}`, "iperf3 says: the server is busy"},
		{"nothing sent", "shared-vz-2/vm-to-vm.json", `{"end":{"sum_received":{"seconds":3,"bytes":0}}}`, "iperf3 received nothing"},
		{"daemon's cut short", "shared-vz-1/host-to-vm.daemon.json", `{"cpu_sec`, "host-to-vm.daemon.json, half of it?"},
		{"no results", "shared-vz-2/x", "", "shared-vz-2 has no results"},
		{"interrupted", "shared-vz-2.part/host-to-vm.json", goodResult, "shared-vz-2.part is half of a run"},
		{"comparison interrupted", "old-new/shared-vz-2.vm-to-vm.part/000.old.json", goodResult, "vm-to-vm.part is half of a run"},
		{"comparison with nothing", "old-new/shared-vz-2.vm-to-vm/000.old.json", goodResult, "has no results of the new daemon"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "darwin")
			for name, text := range good {
				w.put("shared-vz-3/vm-to-vm.json", goodResult)
				w.put(name, text)
			}
			w.put(tt.file, tt.text)
			assert.Equal(t, 1, w.perf("report"))
			assert.Contains(t, w.stderr.String(), tt.want)
			assert.Contains(t, w.stderr.String(), "measure again")
			assert.Contains(t, w.stdout.String(), "| shared-vz-3", "what is whole is told")
		})
	}
}

func TestReportOfNothing(t *testing.T) {
	w := newWorld(t, "linux")
	assert.Equal(t, 1, w.perf("report"))
	assert.Contains(t, w.stderr.String(), "no such file or directory. Name the directory with -o")
	w.put("thesis.tex", "")
	assert.Equal(t, 1, w.perf("report"))
	assert.Contains(t, w.stderr.String(), "there are no results in")
	require.NoError(t, os.RemoveAll(w.out()))
	require.NoError(t, os.WriteFile(w.out(), nil, 0o600))
	assert.Equal(t, 1, w.perf("report"))
	assert.Contains(t, w.stderr.String(), "is no directory")
}

func TestRoundsThatCannotBeRead(t *testing.T) {
	w := created(t, "1")
	w.put(marker, "")
	w.put(roundsFile, `{"version":1,"rou`)
	assert.Equal(t, 1, w.perf("run", "-c1"))
	assert.Contains(t, w.stderr.String(), "add to earlier rounds, delete the file if they are of no use")
	b, err := os.ReadFile(filepath.Join(w.out(), roundsFile))
	require.NoError(t, err)
	assert.JSONEq(t, `"{\"version\":1,\"rou"`, `"`+strings.ReplaceAll(string(b), `"`, `\"`)+`"`, "it is as it was")
}

func TestMedians(t *testing.T) {
	f := func(v float64) use { return use{BitsPerSecond: v * 1e9, CPUPerGB: &v} }
	c := comparison{name: "x", old: []use{f(4), f(1), f(2)}, new: []use{f(8), f(6)}}
	got := compareTable([]comparison{c})
	assert.Contains(t, got, "|      3 |  2.000 |  1.000 |   4.000 |           - |    2.000 |                |                  |")
	assert.Contains(t, got, "|      2 |  7.000 |  6.000 |   8.000 |           - |    7.000 |          3.50x |            3.50x |")
	assert.Equal(t, []string{"old", "new", "new", "old", "old", "new"}, order(3))
}

func TestDifference(t *testing.T) {
	n := func(v uint64) *uint64 { return &v }
	r := result{daemon: &daemon{source: source{name: "x"}, relay: "daemon", pid: 9}}
	r.transfer.End.Received.Seconds, r.transfer.End.Received.Bytes, r.transfer.End.Received.BitsPerSecond = 2, 2e9, 8e9

	u := r.difference(consumption{cpu: 1, voluntary: n(10), involuntary: n(5)}, consumption{cpu: 1.5, voluntary: n(30), involuntary: n(4)}, nil)
	assert.InDelta(t, 0.25, *u.CPUPerGB, 1e-9)
	assert.InDelta(t, 8000.0/25, *u.MbitPerCPU, 1e-9, "0.5 s in 2 s are 25 %")
	assert.Equal(t, uint64(20), *u.Voluntary)
	assert.Zero(t, *u.Involuntary, "threads have ended")
	assert.Equal(t, "10", u.perSecond(u.Voluntary))
	assert.Empty(t, u.Note)

	u = r.difference(consumption{cpu: 1}, consumption{cpu: 1.05, resolution: 0.01}, nil)
	assert.Contains(t, u.Note, "near the resolution")
	u = r.difference(consumption{cpu: 1}, consumption{cpu: 1}, nil)
	assert.Nil(t, u.CPUPerGB, "not infinite Mbit/s")
	u = r.difference(consumption{cpu: 2}, consumption{cpu: 1}, nil)
	assert.Contains(t, u.Note, "process 9 is another one than before")
	u = r.difference(consumption{}, consumption{}, errors.New("gone"))
	assert.Contains(t, u.Note, "gone")
	assert.Nil(t, u.CPUSeconds)
}
