// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const published = "../../docs/performance/peers.json"

// raw makes a directory of rounds.
func raw(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "raw")
	require.NoError(t, rounds.Write(filepath.Join(dir, "bench.json"), rounds.File{
		Command: "make bench", Machine: rounds.Machine{Commit: "abc", Date: time.Unix(1, 0)},
		Rounds: []rounds.Round{
			{
				Series: "pair", Relay: rounds.Daemon, Transport: "stream", Sender: "batch", Direction: rounds.ClientToClient,
				Frame: 1514, Clients: 2, Active: 2, Seconds: 1, Frames: 98765,
			},
		},
	}))
	return dir
}

// run calls the program as its user does.
func run(args ...string) (string, error) {
	var out bytes.Buffer
	err := report(append([]string{"-peers", published}, args...), &out)
	return out.String(), err
}

func TestReportAndCheck(t *testing.T) {
	in, out := raw(t), filepath.Join(t.TempDir(), "out")
	said, err := run("-raw", in, "-out", out)
	require.NoError(t, err)
	assert.Contains(t, said, out)
	b, err := os.ReadFile(filepath.Join(out, "throughput.md"))
	require.NoError(t, err)
	assert.Contains(t, string(b), "| 98.8 |")
	require.FileExists(t, filepath.Join(out, "plots/bench-pair.svg"))
	_, err = run("-raw", in, "-out", out, "-check")
	require.NoError(t, err)

	edited := bytes.Replace(b, []byte("98.8"), []byte("99.9"), 1)
	require.NoError(t, os.WriteFile(filepath.Join(out, "throughput.md"), edited, 0o600))
	_, err = run("-raw", in, "-out", out, "-check")
	require.ErrorContains(t, err, "throughput.md differs in line")
	after, err := os.ReadFile(filepath.Join(out, "throughput.md"))
	require.NoError(t, err)
	assert.Equal(t, edited, after, "a check changes nothing")

	_, err = run("-raw", in, "-out", out)
	require.NoError(t, err)
	_, err = run("-raw", in, "-out", out, "-check")
	assert.NoError(t, err)
}

func TestBadInput(t *testing.T) {
	in := raw(t)
	half := filepath.Join(t.TempDir(), "half")
	require.NoError(t, os.Mkdir(half, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(half, "bench.json"), []byte(`{"version": 1, "rounds": [`), 0o600))
	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "photo.jpg"), []byte("x"), 0o600))
	wrongPeers := filepath.Join(t.TempDir(), "peers.json")
	require.NoError(t, os.WriteFile(wrongPeers, []byte(`{"sets":[{"id":"a","rows":[]}]}`), 0o600))
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing", nil, "-raw and -out"},
		{"no directory of rounds", []string{"-raw", filepath.Join(in, "none"), "-out", t.TempDir()}, "none"},
		{"no rounds in it", []string{"-raw", t.TempDir(), "-out", t.TempDir()}, "measure first"},
		{"half a file", []string{"-raw", half, "-out", t.TempDir()}, "half/bench.json"},
		{"a directory that is not theirs", []string{"-raw", in, "-out", foreign}, "photo.jpg"},
		{"an unknown option", []string{"-verbose"}, "verbose"},
		{"a verb", []string{"-raw", in, "-out", t.TempDir(), "draw"}, `"draw"`},
		{"no published figures", []string{"-raw", in, "-out", t.TempDir(), "-peers", filepath.Join(in, "none.json")}, "none.json"},
		{"published figures without a source", []string{"-raw", in, "-out", t.TempDir(), "-peers", wrongPeers}, "source"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := run(c.args...)
			require.ErrorContains(t, err, c.want)
		})
	}
	left, err := os.ReadDir(foreign)
	require.NoError(t, err)
	assert.Len(t, left, 1, "nothing was written there")
}
