// SPDX-License-Identifier: Apache-2.0

package machrun

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func open(t *testing.T, dir string) *Control {
	t.Helper()
	c, err := Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// A talk is a running program with a control file.
type talk struct {
	in  *os.File
	out *bufio.Scanner
}

func start(t *testing.T, dir string, args ...string) *talk {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd := exec.CommandContext(t.Context(), Program(t), args...)
	cmd.Stdin, cmd.Env = r, append(os.Environ(), "MACHRUN_DIR="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = w.Close()
		_ = cmd.Wait() // the context may have ended it
		assert.Empty(t, stderr.String())
	})
	return &talk{w, bufio.NewScanner(out)}
}

// say gives the program input, if any, and returns the next line that it prints.
func (p *talk) say(t *testing.T, input string) string {
	t.Helper()
	_, err := p.in.WriteString(input)
	require.NoError(t, err)
	require.True(t, p.out.Scan(), "%v", p.out.Err())
	return p.out.Text()
}

// TestSwitchesAreLive flips one between two calls, also of a program that another has executed in its place.
func TestSwitchesAreLive(t *testing.T) {
	t.Parallel()
	dir, p := t.TempDir(), probe(t)
	c := open(t, dir)
	r := start(t, dir, p, "exec", p, "x", "opens")
	assert.Equal(t, "open: done", r.say(t, "one"))
	c.Set("fail.open", 5, 1, 1) // after one that passes
	assert.Equal(t, "open: done", r.say(t, "two"))
	assert.Equal(t, "open: input/output error", r.say(t, "three"))
	assert.Zero(t, c.Left("fail.open"))
	assert.Equal(t, "open: done", r.say(t, "four"))
}

func TestSleepOfTheMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	p := start(t, dir, probe(t), "clocks")
	require.Equal(t, "ready", p.say(t, ""))
	c.Set("asleep_ms", time.Hour.Milliseconds())
	wall, own, found := strings.Cut(p.say(t, "x"), " ")
	require.True(t, found)
	ms, err := strconv.Atoi(wall)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, ms, int(time.Hour.Milliseconds()))
	ms, err = strconv.Atoi(own)
	require.NoError(t, err)
	assert.Less(t, ms, int(time.Hour.Milliseconds()))
}

func TestSums(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	p := start(t, dir, probe(t), "spawn", "/bin/echo", "hello")
	assert.Equal(t, "hello", p.say(t, ""))
	assert.EqualValues(t, 1, c.Value("forks"))
}

func TestOtherVersion(t *testing.T) {
	t.Parallel()
	all, err := names()
	require.NoError(t, err)
	require.Greater(t, len(all), 100)
	for name, damage := range map[string]func(b []byte) []byte{
		"shorter": func(b []byte) []byte { return b[:len(b)-1] },
		"magic":   func(b []byte) []byte { b[0]++; return b },
		"names":   func(b []byte) []byte { b[headerSize+1]++; return b },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, fileName), damage(image(all)), 0o600))
			_, err := Open(dir)
			require.ErrorContains(t, err, "another version")
			cmd := exec.CommandContext(t.Context(), Program(t), probe(t), "show")
			cmd.Env = append(os.Environ(), "MACHRUN_DIR="+dir)
			_, stderr, status := run(t, cmd)
			assert.Equal(t, 125, status)
			assert.Contains(t, stderr, "no control file of this version")
		})
	}
}

func TestUnknownSwitch(t *testing.T) {
	t.Parallel()
	c := open(t, t.TempDir())
	c.Set("slow.connect", 5)
	assert.EqualValues(t, 5, c.Value("slow.connect"))
	assert.Equal(t, int64(Forever), c.Left("slow.connect"))
	assert.Panics(t, func() { c.Set("fail.everything", 1) })
}
