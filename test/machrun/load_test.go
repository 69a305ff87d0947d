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
	lcSegment    = 0x19
	lcUnixThread = 0x5
	lcDyldInfo   = 0x80000022
	lcUUID       = 0x1b
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
	{"a universal file", "lipo -thin", func(m machO) []byte { return append([]byte{0xca, 0xfe, 0xba, 0xbe}, m[4:]...) }},
	{"arm64", "for arm64, not for x86_64", func(m machO) []byte { m.put32(4, 0x0100000c); return m }},
	{"a library", "its type is 6", func(m machO) []byte { m.put32(12, 6); return m }},
	{"the header", "the file ends after 32", func(m machO) []byte { return m[:32] }},
	{"half of it", "the file ends after", func(m machO) []byte { return m[:len(m)/2] }},
	{"without its last byte", "__LINKEDIT", func(m machO) []byte { return m[:len(m)-1] }},
	{"too many commands", "does not fit", func(m machO) []byte { m.put32(16, 1000); return m }},
	{"commands that are longer", "its load commands have", func(m machO) []byte { m.put32(20, 0xfffffff0); return m }},
	{"a command of no bytes", "does not fit", func(m machO) []byte { m.put32(36, 0); return m }},
	{"a short segment", "longer than its load command", func(m machO) []byte { m.put32(m.command(lcSegment, 1)+64, 1000); return m }},
	{"a segment behind the file", "segment __TEXT is at", func(m machO) []byte { m.put64(m.command(lcSegment, 1)+40, 1<<40); return m }},
	{"an address that wraps", "segment __TEXT is at address", func(m machO) []byte { m.put64(m.command(lcSegment, 1)+24, 1<<64-4096); return m }},
	{"segments that overlap", "overlap", func(m machO) []byte { m.put64(m.command(lcSegment, 2)+24, 0x1001000); return m }},
	{"a segment of terabytes", "segment __DATA is at address", func(m machO) []byte {
		at := m.command(lcSegment, 3)
		m.put64(at+24, 1<<40)
		m.put64(at+32, 1<<40)
		return m
	}},
	{"no entry", "no LC_UNIXTHREAD", func(m machO) []byte { m.put32(m.command(lcUnixThread, 0), lcUUID); return m }},
	{"an entry elsewhere", "in no segment with code", func(m machO) []byte { m.put64(m.command(lcUnixThread, 0)+16+8*16, 64); return m }},
	{"another linker", "Go's own linker did not make it", func(m machO) []byte { m.put32(m.command(lcUUID, 0), 0x80000034); return m }},
	{"lazy imports", "weak or lazy", func(m machO) []byte { m.put32(m.command(lcDyldInfo, 0)+36, 8); return m }},
	{"imports behind the file", "table of imports is at", func(m machO) []byte { m.put32(m.command(lcDyldInfo, 0)+16, 0xffffffff); return m }},
	{"an unknown opcode", "opcode 0xd0", func(m machO) []byte { m.bind(0xd0); return m }},
	{"a name that does not end", "does not end", func(m machO) []byte {
		b := m.binds()
		b[0], b[1] = 0x40, '_'
		for i := range b[2:] {
			b[2+i] = 'x'
		}
		return m
	}},
	{"segment 15", "segment 15 of 6", func(m machO) []byte { m.bind(0x40, '_', 'x', 0, 0x7f, 0, 0x90); return m }},
	{"no segment", "before it has", func(m machO) []byte { m.bind(0x40, '_', 'x', 0, 0x90); return m }},
	{"behind a segment", "in segment __DATA_CONST", func(m machO) []byte {
		m.bind(0x40, '_', 'x', 0, 0x72, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x90)
		return m
	}},
	{"into code", "in segment __TEXT", func(m machO) []byte { m.bind(0x40, '_', 'x', 0, 0x71, 0, 0x90); return m }},
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
