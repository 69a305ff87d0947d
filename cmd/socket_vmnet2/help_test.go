// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

func TestHelp(t *testing.T) {
	out, err := exec.Command(filepath.Join(binaries, "socket_vmnet2"), "help").Output()
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(out), "Usage: socket_vmnet2 [OPTION]... SOCKET\n"), string(out))
	assert.Contains(t, string(out), "\n       socket_vmnet2 COMMAND [ARG]...\n")
	for _, name := range commandNames() {
		assert.Regexp(t, `(?m)^  `+name+`  +[^ ].{1,66}$`, string(out), "a line")
		code, stdout, stderr := call("help", name)
		_, own, _ := call(name, "--help")
		assert.Zero(t, code, name)
		assert.Equal(t, own, stdout)
		assert.True(t, strings.HasPrefix(stdout, "Usage: socket_vmnet2 "+name), stdout)
		assert.Empty(t, stderr)
	}
	code, stdout, stderr := call("help", "statsu")
	assert.Equal(t, 1, code)
	assert.Equal(t, "ERROR| unknown command \"statsu\": did you mean status? (see socket_vmnet2 --help)\n", stderr)
	assert.Empty(t, stdout)
}

func TestVersion(t *testing.T) {
	code, stdout, stderr := call("version")
	assert.Zero(t, code)
	assert.Equal(t, compat.Version+"\n", stdout, "as --version has it")
	assert.Empty(t, stderr)

	code, stdout, _ = call("version", "--json")
	assert.Zero(t, code)
	var got map[string]string
	require.NoError(t, json.Unmarshal([]byte(stdout), &got), stdout)
	assert.Equal(t, map[string]string{"version": compat.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}, got)
	assert.Equal(t, 1, strings.Count(stdout, "\n"))
}

// TestHelpWidth: the texts fit, but for words that are longer than a line, and have no byte that is not ASCII.
func TestHelpWidth(t *testing.T) {
	for width, longest := range map[string]int{"": 80, "0": 80, "x": 80, "-1": 80, "1": 40, "40": 40, "80": 80, "100": 100, "200": 120, "99999999999999999999": 80} {
		for _, name := range append(commandNames(), "") {
			var out, errs strings.Builder
			env := compat.IO{Stdout: &out, Stderr: &errs, LookupEnv: func(key string) (string, bool) { return width, key == "COLUMNS" }}
			env.Width = widthOf(env)
			assert.Zero(t, runCommand("help", strings.Fields(name), env))
			assert.Empty(t, errs.String())
			assert.NotRegexp(t, `[^\n -~]`, out.String())
			for line := range strings.Lines(out.String()) {
				if len(strings.Fields(line)) > 1 {
					assert.LessOrEqual(t, len(line)-1, longest, "%s %q", name, line)
				}
			}
		}
	}
	var texts []string
	for _, locale := range []string{"C", "en_US.UTF-8"} {
		c := exec.Command(filepath.Join(binaries, "socket_vmnet2"), "--help")
		c.Env = []string{"LC_ALL=" + locale, "NO_COLOR=1", "GORACE=atexit_sleep_ms=0"}
		out, err := c.Output()
		require.NoError(t, err)
		texts = append(texts, string(out))
	}
	assert.Equal(t, texts[0], texts[1])
}

// TestHelpUnread: a reader that has seen enough is no error, as head is.
func TestHelpUnread(t *testing.T) {
	for _, args := range []string{"--help", "help", "status --help", "help status"} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, r.Close())
		c := exec.Command(filepath.Join(binaries, "socket_vmnet2"), strings.Fields(args)...)
		var stderr strings.Builder
		c.Stdout, c.Stderr = w, &stderr
		assert.NoError(t, c.Run(), args)
		assert.Empty(t, stderr.String(), args)
		require.NoError(t, w.Close())
	}
}
