// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/selftest"
)

// report is a report as a program reads it.
type report struct {
	Schema                  int
	Verdict, Reason         string
	Passed, Failed, Skipped int
	Seconds                 float64
	Environment, Network    map[string]any
	Steps                   []struct {
		Name, Outcome, Text string
		Values              map[string]any
	}
	Log []string
}

// selftestRun runs the subcommand to its end.
func selftestRun(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(binaries, "socket_vmnet2"), append([]string{"selftest"}, args...)...)
	c.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	code, stdout, stderr = outcome(t, c)
	assert.NotContains(t, stderr, "DATA RACE")
	return code, stdout, stderr
}

func parseReport(t *testing.T, text string) (r report) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	require.NoError(t, d.Decode(&r), "%s", text)
	assert.False(t, d.More(), "one document")
	return r
}

func TestSelftestJSON(t *testing.T) {
	code, stdout, stderr := selftestRun(t, "--json", "--quick", "--backend=usernet", "--vmnet-gateway=10.20.30.1", "--vmnet-mask=255.255.255.128",
		"--vmnet-dhcp-end=10.20.30.100", "--vmnet-mtu=4000")
	r := parseReport(t, stdout)
	assert.Equal(t, "pass", r.Verdict, "%s", stdout)
	assert.Zero(t, code)
	assert.Empty(t, stderr)
	assert.Equal(t, selftest.Schema, r.Schema)
	assert.Empty(t, r.Reason)
	assert.Equal(t, "usernet", r.Environment["backend"])
	assert.Equal(t, "10.20.30.0/25", r.Network["subnet"])
	assert.Equal(t, "10.20.30.100", r.Network["dhcp_end"])
	var names []string
	values := map[string]map[string]any{}
	for _, s := range r.Steps {
		names = append(names, s.Name)
		values[s.Name] = s.Values
		want := "pass"
		if s.Name == "recorded" {
			want = "skip"
		}
		assert.Equal(t, want, s.Outcome, "%s: %s", s.Name, s.Text)
		assert.NotEmpty(t, s.Text)
	}
	assert.EqualValues(t, 4014, values["full-frame"]["frame_bytes"])
	assert.EqualValues(t, 8, values["interfaces"]["own"])
	assert.Equal(t, "reboot", values["same-lease"]["how"])
	assert.Len(t, names, r.Passed+r.Skipped)
	checkSelftestDocs(t, stdout)
}

// checkSelftestDocs: what a report holds is in the documentation, by name.
func checkSelftestDocs(t *testing.T, text string) {
	t.Helper()
	b, err := os.ReadFile("../../docs/try.md")
	require.NoError(t, err)
	doc := string(b)
	r := parseReport(t, text)
	var keys map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &keys))
	names := slices.Collect(maps.Keys(keys))
	names = slices.AppendSeq(names, maps.Keys(r.Environment))
	names = slices.AppendSeq(names, maps.Keys(r.Network))
	for _, s := range r.Steps {
		if names = append(names, s.Name); s.Name != "info" { // which is the network again
			names = slices.AppendSeq(names, maps.Keys(s.Values))
		}
	}
	for _, name := range names {
		_, rest, _ := strings.Cut(name, "_") // of each guest
		assert.True(t, strings.Contains(doc, "`"+name+"`") || strings.Contains(doc, "`*_"+rest+"`"), name)
	}
}

// TestSelftestInterrupted: a signal ends the test in order and soon, with a report.
func TestSelftestInterrupted(t *testing.T) {
	tmp := t.TempDir()
	c := exec.CommandContext(t.Context(), filepath.Join(binaries, "socket_vmnet2"), "selftest", "--json", "--backend=usernet")
	c.Env = append(os.Environ(), "TMPDIR="+tmp)
	var out bytes.Buffer
	c.Stdout = &out
	require.NoError(t, c.Start())
	require.Eventually(t, func() bool {
		m, _ := filepath.Glob(filepath.Join(tmp, "socket_vmnet2-selftest-*", "state"))
		return len(m) == 1 // the network is being opened
	}, patience, time.Millisecond)
	sent := time.Now()
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	_ = c.Wait()
	assert.Less(t, time.Since(sent), patience)
	r := parseReport(t, out.String())
	assert.Equal(t, 1, c.ProcessState.ExitCode())
	assert.Equal(t, "incomplete", r.Verdict)
	assert.Contains(t, r.Reason, "interrupted: received signal")
	assert.NotEmpty(t, r.Steps)
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	assert.Empty(t, left, "nothing is left behind")
}
