// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/codesign"
)

// unpack reads an archive: the headers in order, and the contents by name.
func unpack(t *testing.T, packed []byte) (headers []*tar.Header, contents map[string][]byte) {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	assert.Equal(t, gzip.Header{OS: 255}, zr.Header, "nothing of the machine")
	contents = map[string][]byte{}
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return headers, contents
		}
		require.NoError(t, err)
		headers = append(headers, h)
		contents[h.Name], err = io.ReadAll(tr)
		require.NoError(t, err)
	}
}

func TestArchive(t *testing.T) {
	when := time.Unix(1_600_000_000, 0)
	entries := []entry{{"b/c/file", 0o644, []byte("text")}, {"b/c/program", 0o755, []byte{0}}, {"b/a", 0o644, nil}}
	packed, err := archive(entries, when)
	require.NoError(t, err)
	headers, contents := unpack(t, packed)
	var names []string
	for _, h := range headers {
		names = append(names, h.Name)
		assert.True(t, h.ModTime.Equal(when))
	}
	assert.Equal(t, []string{"./b/", "./b/a", "./b/c/", "./b/c/file", "./b/c/program"}, names)
	assert.Equal(t, "text", string(contents["./b/c/file"]))
	assert.Equal(t, []int64{0o755, 0o644, 0o755, 0o644, 0o755}, []int64{
		headers[0].Mode, headers[1].Mode, headers[2].Mode, headers[3].Mode, headers[4].Mode,
	})

	entries[0], entries[2] = entries[2], entries[0]
	again, err := archive(entries, when)
	require.NoError(t, err)
	assert.Equal(t, packed, again, "the order does not matter")
	_, err = archive(append(entries, entries[0]), when)
	assert.ErrorContains(t, err, "b/a is in the archive twice")
}

func TestCheckVersion(t *testing.T) {
	for _, good := range []string{"v1.2.3", "1.2.3", "v0.0.0-ecee15b.m", "v1.2.3-rc.1+x", "v1~rc1"} {
		assert.NoError(t, checkVersion(good), good)
	}
	for _, bad := range []string{"v", "", "v1/../../x", "-v", ".", "v1 2", "v1\n", "v'1"} {
		assert.ErrorContains(t, checkVersion(bad), "version", bad)
	}
}

func TestBuildTime(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(os.TempDir()))
	t.Setenv("GIT_DIR", filepath.Join(t.TempDir(), "none"))
	tests := []struct {
		name, epoch, err string
		want             int64
	}{
		{"set", "1600000000", "", 1_600_000_000},
		{"zero", "0", "", 0},
		{"not a number", "today", `SOURCE_DATE_EPOCH "today": want seconds since 1970`, 0},
		{"negative", "-1", `SOURCE_DATE_EPOCH "-1"`, 0},
		{"neither", "", "set SOURCE_DATE_EPOCH to build outside of git", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("SOURCE_DATE_EPOCH", tt.epoch)
			got, err := buildTime(t.Context())
			if tt.err != "" {
				assert.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, got.Unix())
		})
	}
}

func TestRunRefuses(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	used := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(used, "old.tar.gz"), nil, 0o600))
	tests := []struct {
		name string
		r    release
		args []string
		want string
	}{
		{"argument", release{version: "v1"}, []string{"x"}, `unexpected argument "x"`},
		{"no version", release{out: used}, nil, `version ""`},
		{"directory in use", release{version: "v1", out: used}, nil, "holds old.tar.gz; remove it first"},
		{"no such go", release{version: "v1", out: t.TempDir(), goTool: "/no/such/go"}, nil, "no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir("../..")
			assert.ErrorContains(t, tt.r.run(t.Context(), tt.args), tt.want)
		})
	}
}

func TestLicences(t *testing.T) {
	dir := t.TempDir()
	var text bytes.Buffer
	assert.ErrorContains(t, appendLicences(&text, "example.com/m v1", dir), "no licence of example.com/m v1 in "+dir)
	for _, name := range []string{"LICENSE", "license.md", "LICENCE-MIT", "NOTICE.txt", "LICENSES.go", "readme"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("text of "+name+"\n\n"), 0o600))
	}
	require.NoError(t, appendLicences(&text, "example.com/m v1", dir))
	for _, name := range []string{"LICENSE", "license.md", "LICENCE-MIT", "NOTICE.txt"} {
		assert.Contains(t, text.String(), "example.com/m v1: "+name+"\n\ntext of "+name+"\n")
	}
	assert.NotContains(t, text.String(), "readme")
	assert.NotContains(t, text.String(), "LICENSES.go")
}

// TestCheck changes a good program, signs it again, and wants the change noticed.
func TestCheck(t *testing.T) {
	t.Chdir("../..")
	p, arm := programs[1], architectures[0]
	file := filepath.Join(t.TempDir(), p.name)
	c := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", file, "./cmd/"+p.name)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=darwin", "GOARCH="+arm.goarch)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	good, err := p.sign(file)
	require.NoError(t, err)
	require.NoError(t, p.check(good, arm, "v1"))

	// at finds the load command with these two first words.
	at := func(cmd, size uint32) int {
		want := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, cmd), size)
		i := bytes.Index(good[:4096], want)
		require.Positive(t, i)
		return i
	}
	set := func(at int, with string) func([]byte) { return func(b []byte) { copy(b[at:], with) } }
	tests := []struct {
		name   string
		change func([]byte)
		want   string
	}{
		{"not movable", set(26, "\x00"), "that can be placed anywhere"},
		{"another library", set(bytes.Index(good, []byte("libresolv.9")), "libresolv.8"), `linked with ["/usr/lib/libSystem.B.dylib" "/usr/lib/libresolv.8.dylib"]`},
		{"newer macOS only", set(at(0x32, 24)+14, "\x0d"), "LC_BUILD_VERSION"},
		{"another platform", set(at(0x32, 24)+8, "\x02"), "LC_BUILD_VERSION"},
		{"no UUID", set(at(0x1b, 24)+8, string(make([]byte, 16))), "LC_UUID"},
		{"another loader", set(bytes.Index(good, []byte("/usr/lib/dyld")), "/usr/lib/dylx"), "LC_LOAD_DYLINKER"},
		{"a command too many", set(at(0x1b, 24), "\x32"), "LC_BUILD_VERSION"},
		{"an unknown command", set(at(0x1b, 24), "\x1c"), "unknown load command"},
		{"the simulator", set(0x2000, "--vmnetsim-lib"), `contains "vmnetsim"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := bytes.Clone(good)
			tt.change(b)
			o, err := p.signing()
			require.NoError(t, err)
			b, err = codesign.Sign(b, o)
			require.NoError(t, err)
			assert.ErrorContains(t, p.check(b, arm, "v1"), tt.want)
		})
	}
	assert.ErrorContains(t, p.check(good, architectures[1], "v1"), "want an executable for CpuAmd64")
	assert.ErrorContains(t, p.check(good[:1000], arm, "v1"), "EOF")
	entitled := p
	entitled.entitled = true
	assert.ErrorContains(t, entitled.check(good, arm, "v1.2.3-not-there"), "does not contain the version")
	assert.ErrorContains(t, entitled.check(good, arm, "socket"), "signature")
	unsigned := bytes.Clone(good)
	unsigned[len(unsigned)-100] ^= 1
	assert.Error(t, p.check(unsigned, arm, "v1"))
}
