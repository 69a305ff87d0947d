// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// root is the root of the repository.
var root, _ = filepath.Abs("../..")

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

func TestVersionRule(t *testing.T) {
	for _, good := range []string{"v1.2.3", "1.2.3", "v0.0.0-ecee15b.m", "v1.2.3-rc.1+x", "v1~rc1"} {
		assert.True(t, versionRule.MatchString(good), good)
	}
	for _, bad := range []string{"v", "", "v1/../../x", "-v", ".", "v1 2", "v1\n", "v'1"} {
		assert.False(t, versionRule.MatchString(bad), bad)
	}
}

func TestCommandRefuses(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	used := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(used, "old.tar.gz"), nil, 0o600))
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"argument", []string{"-version=v1", "x"}, `unexpected argument "x"`},
		{"command", []string{"publish", "-version=v1"}, `unknown command "publish": want notes, formula, sign, or none`},
		{"no version", []string{"-out", used}, `version ""`},
		{"directory in use", []string{"-version=v1", "-out", used}, "holds files; remove it first"},
		{"no such go", []string{"-version=v1", "-out", t.TempDir(), "-go=/no/such/go"}, "no such file"},
		{"version of notes", []string{"notes", "-version=a b"}, `version "a b"`},
		{"version that is not out", []string{"notes", "-version=v9999.0.0"}, `CHANGELOG.md: no section "## 9999.0.0 - YYYY-MM-DD": put`},
		{"formula of no tag", []string{"formula", "-version=1.2.3", "-source=x"}, `version "1.2.3": want a tag, as in v1.2.3`},
		{"formula of nothing", []string{"formula", "-version=v1.2.3"}, "want -source FILE, the archive of v1.2.3 from https://"},
		{"formula of no archive", []string{"formula", "-version=v1.2.3", "-source=README.md"}, "README.md: gzip: invalid header: is it the archive of v1.2.3 from"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(root)
			assert.ErrorContains(t, command(t.Context(), tt.args, io.Discard), tt.want)
		})
	}
}

func TestNotes(t *testing.T) {
	const changes = "# Changelog\n\n## Unreleased\n\n- next\n\n## 1.2.0 - 2026-12-24\n\n### Added\n\n- this\n\n## 1.1.0 - 2026-11-30\n- old\n"
	tests := []struct{ name, changes, version, want, err string }{
		{"in the middle", changes, "v1.2.0", "### Added\n\n- this\n", ""},
		{"not there", changes, "v1.3.0", "", `no section "## 1.3.0 - YYYY-MM-DD"`},
		{"part of another", changes, "v1.2", "", `no section "## 1.2 - YYYY-MM-DD"`},
		{"no date", "## 1.2.0\n- this\n", "v1.2.0", "", `no section "## 1.2.0 - YYYY-MM-DD"`},
		{"empty", "## 1.2.0 - 2026-12-24\n\n\n## 1.1.0 - 2026-11-30\n- old\n", "v1.2.0", "", "the section 1.2.0 is empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := section(tt.changes, strings.TrimPrefix(tt.version, "v"))
			if tt.err != "" {
				assert.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestFormula(t *testing.T) {
	t.Chdir(root)
	var sources, out bytes.Buffer // as far as they are looked at
	zw := gzip.NewWriter(&sources)
	_, err := zw.Write([]byte("socket_vmnet2-1.2.3/etc/entitlements.plist"))
	require.NoError(t, errors.Join(err, zw.Close()))
	source := filepath.Join(t.TempDir(), "source.tar.gz")
	require.NoError(t, os.WriteFile(source, sources.Bytes(), 0o600))
	require.NoError(t, command(t.Context(), []string{"formula", "-version=v1.2.3", "-source", source}, &out))
	assert.Contains(t, out.String(), fmt.Sprintf(`
  homepage "https://github.com/socket-vmnet2/socket_vmnet2"
  url "https://github.com/socket-vmnet2/socket_vmnet2/archive/refs/tags/v1.2.3.tar.gz"
  sha256 "%x"
  license "Apache-2.0"
`, sha256.Sum256(sources.Bytes())))

	assert.ErrorContains(t, command(t.Context(), []string{"formula", "-version=v1.2.4", "-source", source}, &out), "no socket_vmnet2-1.2.4/etc/entitlements.plist in it")
	_, err = withSource(out.String(), "v1.2.3", "0")
	assert.ErrorContains(t, err, "has an url or a checksum already")
	_, err = withSource("class X", "v1.2.3", "0")
	assert.ErrorContains(t, err, `want the line "homepage`)
}

func TestLicences(t *testing.T) {
	m := module{"example.com/m", "v1", t.TempDir()}
	_, err := licences([]module{m})
	assert.ErrorContains(t, err, "no licence of example.com/m v1 in "+m.dir)
	for _, name := range []string{"LICENSE", "license.md", "LICENCE-MIT", "NOTICE.txt", "LICENSES.go", "readme"} {
		require.NoError(t, os.WriteFile(filepath.Join(m.dir, name), []byte("text of "+name+"\n\n"), 0o600))
	}
	text, err := licences([]module{m})
	require.NoError(t, err)
	for _, name := range []string{"LICENSE", "license.md", "LICENCE-MIT", "NOTICE.txt"} {
		assert.Contains(t, string(text), "example.com/m v1: "+name+"\n\ntext of "+name+"\n")
	}
	assert.NotContains(t, string(text), "readme")
	assert.NotContains(t, string(text), "LICENSES.go")
}

// TestCheck changes a good program, and wants the change noticed.
func TestCheck(t *testing.T) {
	t.Chdir(root)
	p, arm := programs[1], targets[0]
	good := linked(t, arm.goarch)
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
		{"empty UUID", set(at(0x1b, 24)+8, string(make([]byte, 16))), "LC_UUID"},
		{"no UUID", set(at(0x1b, 24), "\x1c"), "LC_UUID"},
		{"the simulator", set(0x2000, "--vmnetsim-lib"), `contains "vmnetsim"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := bytes.Clone(good)
			tt.change(b)
			assert.ErrorContains(t, p.check(b, arm, "v1"), tt.want)
		})
	}
	assert.ErrorContains(t, p.check(good, targets[1], "v1"), "want an executable for CpuAmd64")
	assert.ErrorContains(t, p.check(good[:1000], arm, "v1"), "EOF")
	entitled := p
	entitled.entitled = true
	assert.ErrorContains(t, entitled.check(good, arm, "v1.2.3-not-there"), "does not contain the version")
}
