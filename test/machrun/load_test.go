// SPDX-License-Identifier: Apache-2.0

package machrun

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// probe builds the tests' program for macOS.
func probe(t *testing.T) string {
	t.Helper()
	return buildDarwin(t, "./testdata/probe")
}

// run returns what a program prints, and its exit status.
func run(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, status int) {
	t.Helper()
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	if cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// A machO is a file of a program, to be damaged.
type machO []byte

func (m machO) put32(at int, v uint32) { binary.LittleEndian.PutUint32(m[at:], v) }
func (m machO) put64(at int, v uint64) { binary.LittleEndian.PutUint64(m[at:], v) }
func (m machO) get32(at int) int       { return int(binary.LittleEndian.Uint32(m[at:])) }

// command is where the nth load command of a kind is.
func (m machO) command(kind uint32, n int) int {
	at := 32
	for range m.get32(16) {
		if uint32(m.get32(at)) == kind {
			if n == 0 {
				return at
			}
			n--
		}
		at += m.get32(at + 4)
	}
	panic("no such load command")
}

const (
	lcSegment  = 0x19
	lcDyldInfo = 0x80000022
	lcUUID     = 0x1b
)

// binds are the bind opcodes, of which the first ones are a library, a name, a type and a place.
func (m machO) binds() []byte {
	at := m.command(lcDyldInfo, 0)
	off := m.get32(at + 16)
	return m[off : off+m.get32(at+20)]
}

// bind replaces the bind opcodes.
func (m machO) bind(ops ...byte) { copy(m.binds(), append(ops, make([]byte, 16)...)) }

// damages are what files may look like that are not programs for this loader, with what it says.
var damages = []struct {
	name, says string
	damage     func(m machO) []byte
}{
	{"an empty file", "no Mach-O file", func(machO) []byte { return nil }},
	{"a script", "it is a script", func(machO) []byte { return []byte("#!/bin/sh\n") }},
	{"arm64", "for arm64, not for x86_64", func(m machO) []byte { m.put32(4, 0x0100000c); return m }},
	{"half of it", "the file ends after", func(m machO) []byte { return m[:len(m)/2] }},
	{"segments that overlap", "overlap", func(m machO) []byte { m.put64(m.command(lcSegment, 2)+24, 0x1001000); return m }},
	{"another linker", "Go's own linker did not make it", func(m machO) []byte { m.put32(m.command(lcUUID, 0), 0x80000034); return m }},
	{"imports behind the file", "table of imports is at", func(m machO) []byte { m.put32(m.command(lcDyldInfo, 0)+16, 0xffffffff); return m }},
	{"an unknown opcode", "opcode 0xd0", func(m machO) []byte { m.bind(0xd0); return m }},
	{"behind a segment", "in segment __DATA_CONST", func(m machO) []byte {
		m.bind(0x40, '_', 'x', 0, 0x72, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x90)
		return m
	}},
	{"for ever", "more than 65536", func(m machO) []byte { // 2^62 times, with steps of 8-8
		ops := []byte{0x40, '_', 'x', 0, 0x72, 0, 0xc0}
		ops = binary.AppendUvarint(ops, 1<<62)
		m.bind(binary.AppendUvarint(ops, 1<<64-8)...)
		return m
	}},
}

// TestBadFiles has one line on stderr and status 126 for each of them.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	loader, good := Program(t), probe(t)
	b, err := os.ReadFile(good)
	require.NoError(t, err)
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			p := filepath.Join(t.TempDir(), "damaged")
			require.NoError(t, os.WriteFile(p, d.damage(slices.Clone(b)), 0o700))
			stdout, stderr, status := run(t, exec.CommandContext(t.Context(), loader, p, "show"))
			assert.Equal(t, 126, status)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, d.says)
			assert.True(t, strings.HasPrefix(stderr, "machrun: "+p), "%s", stderr)
			assert.Equal(t, 1, strings.Count(stderr, "\n"), "%s", stderr)
		})
	}
}

func TestNoFile(t *testing.T) {
	t.Parallel()
	loader, good := Program(t), probe(t)
	require.NoError(t, os.Chmod(good, 0o600))
	for _, c := range []struct {
		says   string
		status int
		args   []string
	}{
		{"No such file", 127, []string{"/nonexistent"}},
		{"Permission denied", 126, []string{t.TempDir()}},
		{"Permission denied", 126, []string{good}},
		{"usage:", 125, nil},
	} {
		_, stderr, status := run(t, exec.CommandContext(t.Context(), loader, c.args...))
		assert.Equal(t, c.status, status, "%q", c.args)
		assert.Contains(t, stderr, c.says)
	}
}

// TestMissingFunction renames an import of a program, which then calls what there is not.
func TestMissingFunction(t *testing.T) {
	t.Parallel()
	loader, p := Program(t), probe(t)
	b, err := os.ReadFile(p)
	require.NoError(t, err)
	m := machO(b)
	at := bytes.Index(m.binds(), []byte("_fork\x00"))
	require.Positive(t, at)
	m.binds()[at+1] = 'Z'
	require.NoError(t, os.WriteFile(p, b, 0o700))
	_, stderr, status := run(t, exec.CommandContext(t.Context(), loader, p, "spawn", "/bin/true"))
	assert.Equal(t, 127, status)
	assert.Regexp(t, `^machrun: .*/probe called Zork, which the loader lacks\n$`, stderr)
}
