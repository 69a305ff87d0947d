// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// good is a file as a measurement writes it.
func good() rounds.File {
	return rounds.File{
		Command: "make bench", Machine: rounds.Machine{Commit: "abc", Date: time.Unix(1, 0).UTC()},
		Rounds: []rounds.Round{{Series: "pair", Relay: rounds.Daemon, Seconds: 1}},
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, rounds.Write(filepath.Join(dir, "b.json"), good()))
	require.NoError(t, rounds.Write(filepath.Join(dir, "a-1.json"), good()))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README.md"), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d.json"), 0o700))
	runs, err := Load(dir)
	require.NoError(t, err)
	require.Len(t, runs, 2, "what is no JSON is not looked at")
	assert.Equal(t, "a-1", runs[0].Name)
	assert.Equal(t, "b", runs[1].Name)
	assert.Len(t, Of(runs, "pair"), 2)
	assert.Empty(t, Of(runs, "none"))
}

func TestLoadRefuses(t *testing.T) {
	file := func(change func(f *rounds.File)) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			f := good()
			change(&f)
			require.NoError(t, rounds.Write(filepath.Join(dir, "a.json"), f))
		}
	}
	text := func(name, s string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(s), 0o600))
		}
	}
	for _, c := range []struct {
		name string
		make func(t *testing.T, dir string)
		want string
	}{
		{"no rounds", func(*testing.T, string) {}, "measure first"},
		{"a file cut short", text("a.json", `{"version":1,"rounds":[{"ser`), "a.json"},
		{"an empty file", text("a.json", ""), "a.json"},
		{"another format", text("a.json", `{"start":{},"end":{"sum_received":{}}}`), "version 0"},
		{"a wrong version", text("a.json", `{"version":7,"rounds":[{}]}`), "version 7"},
		{"an interrupted run", text("a.json.part", "{"), "interrupted"},
		{"a name that no link can have", text("a b.json", "{}"), "rename"},
		{"text for a number", text("a.json", `{"version":1,"rounds":[{"seconds":"1"}]}`), "a.json"},
		{"no command", file(func(f *rounds.File) { f.Command = "" }), "command"},
		{"no commit", file(func(f *rounds.File) { f.Machine.Commit = "" }), "commit"},
		{"no day", file(func(f *rounds.File) { f.Machine.Date = time.Time{} }), "day"},
		{"no series", file(func(f *rounds.File) { f.Rounds[0].Series = "" }), "series"},
		{"no time", file(func(f *rounds.File) { f.Rounds[0].Seconds = 0 }), "seconds"},
		{"next to no time", file(func(f *rounds.File) { f.Rounds[0].Seconds = 1e-300 }), "seconds"},
		{"for ever", file(func(f *rounds.File) { f.Rounds[0].Seconds = 1e300 }), "seconds"},
		{"negative time", file(func(f *rounds.File) { f.Rounds[0].CPUSeconds = -1 }), "negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.make(t, dir)
			_, err := Load(dir)
			require.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, dir, "the error tells where")
		})
	}
	_, err := Load(filepath.Join(t.TempDir(), "none"))
	assert.ErrorContains(t, err, "none")
}
