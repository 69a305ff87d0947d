// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWriteAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "a.json")
	f := File{
		Command: "make bench", Machine: Machine{CPU: "x", Cores: 2, Date: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)},
		Rounds: []Round{{Series: "pair", Relay: Daemon, Frame: 1514, Seconds: 0.5, Frames: 7}},
	}
	require.NoError(t, Write(path, f))
	got, err := Read(path)
	require.NoError(t, err)
	f.Version = Version
	assert.Equal(t, f, got)
	assert.NoFileExists(t, path+".part")
}

func TestThisMachine(t *testing.T) {
	m := ThisMachine(t.Context())
	assert.Positive(t, m.Cores)
	for what, v := range map[string]string{"cpu": m.CPU, "os": m.OS, "kernel": m.Kernel, "go": m.Go, "commit": m.Commit} {
		assert.NotEmpty(t, v, what)
		assert.NotContains(t, v, "\n", what)
	}
	assert.WithinDuration(t, time.Now(), m.Date, time.Minute)
	assert.Equal(t, "one", Told(t.Context(), "printf", "one\ntwo"))
	assert.Equal(t, unknown, Told(t.Context(), "/nowhere"))
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"cut short", `{"version":1,"rounds":[{"series":"pa`, "cut short"},
		{"another version", `{"version":9,"rounds":[{}]}`, "version 9"},
		{"no rounds", `{"version":1,"rounds":[]}`, "there are none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.json")
			require.NoError(t, os.WriteFile(path, []byte(c.content), 0o600))
			_, err := Read(path)
			require.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, path)
		})
	}
	_, err := Read(filepath.Join(t.TempDir(), "none.json"))
	assert.ErrorContains(t, err, "none.json")
}
