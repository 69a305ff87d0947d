// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"go/version"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Wrong values are refused before anything is built or changed.
func TestMakeRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"version with a space":   {[]string{"install", "VERSION=v1 2"}, "VERSION=v1 2: want letters, digits and any of ._+~-"},
		"version with a command": {[]string{"build", "VERSION=`touch x`"}, "VERSION=`touch x`: want"},
		"relative prefix":        {[]string{"install", "PREFIX=opt"}, "PREFIX=opt: want an absolute path"},
		"no prefix":              {[]string{"uninstall", "PREFIX="}, "PREFIX=: want an absolute path"},
		"root as prefix":         {[]string{"uninstall.bin", "PREFIX=/"}, "PREFIX=/: want an absolute path"},
		"architecture":           {[]string{"install.bin", "ARCH=ppc"}, "ARCH=ppc is neither arm64 nor x86_64"},
		"interface":              {[]string{"install", "GOOS=darwin", "BRIDGED=en0/../x"}, "BRIDGED=en0/../x: want the name of an interface"},
		"bridged on Linux":       {[]string{"install", "GOOS=linux", "BRIDGED=eth0"}, "BRIDGED=eth0: bridged mode is of macOS alone"},
		"unit with a space":      {[]string{"install.systemd.unit", "PREFIX=/opt/a b"}, "PREFIX=/opt/a b: systemd cannot have this in a unit"},
	} {
		t.Run(name, func(t *testing.T) {
			dest, bin := filepath.Join(t.TempDir(), "dest"), filepath.Join(t.TempDir(), "bin")
			out, err := tryMake(t, append(test.args, "DESTDIR="+dest, "BIN="+bin, "GO=false")...)
			require.Error(t, err, out)
			assert.Contains(t, out, test.want)
			assert.NoDirExists(t, dest)
			assert.NoDirExists(t, bin)
		})
	}
}

// Who has no Go is told in one line.
func TestMakeWithoutGo(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "bin")
	out, err := tryMake(t, "GO=no-such-go", "BIN="+bin)
	require.Error(t, err)
	line, _, _ := strings.Cut(out, "\n")
	assert.Equal(t, "Go is missing, version 1.26 or newer: https://go.dev/dl/", line)
	assert.NoDirExists(t, bin)
}

// upstreamTargets are those of socket_vmnet's Makefile, and the two that are ours.
var upstreamTargets = strings.Fields(`all install install.bin install.doc install.launchd install.launchd.plist uninstall uninstall.bin
	uninstall.doc uninstall.launchd uninstall.launchd.plist uninstall.run clean artifacts test.repro install.compat rollback
	install.systemd install.systemd.unit uninstall.systemd uninstall.systemd.unit build install.links uninstall.links uninstall.dirs`)

// Every target is there, without make's own rules, and uses no variable that is not set: that would be a misspelt one.
func TestMakeTargets(t *testing.T) {
	for _, target := range upstreamTargets {
		for _, goos := range []string{"linux", "darwin"} {
			out, err := tryMake(t, "-n", "-R", "--warn-undefined-variables", target, "GOOS="+goos, "DESTDIR="+t.TempDir(), "STRIP=strip", "SOURCE_DATE_EPOCH=1")
			require.NoError(t, err, "make %s\n%s", target, out)
			assert.NotContains(t, out, "warning:", target)
		}
	}
}

// Without DESTDIR it is this machine's: what is in the way is looked for first, and the service is started last.
func TestMakeStarts(t *testing.T) {
	for goos, want := range map[string][]string{
		"darwin": {"etc/launchd.sh check " + ownPlist, "'/opt/x'/bin", "launchd.sh load"},
		"linux":  {"/run/systemd/system", "'/opt/x'/bin", "systemctl restart socket_vmnet2.service"},
	} {
		out, err := tryMake(t, "-n", "install", "GOOS="+goos, "PREFIX=/opt/x")
		require.NoError(t, err, out)
		out = strings.ReplaceAll(out, "'/opt/x/bin'", "'/opt/x'/bin")
		at := -1
		for _, w := range want {
			next := strings.Index(out, w)
			assert.Greater(t, next, at, "%s in\n%s", w, out)
			at = next
		}
	}
}

// TestToolchain: what CI builds with is a patch release of its own choice, by a line in go.mod that setup-go and the go command
// heed. The go line alone would be 1.26.0 there, with the holes that were found in it since. The line is never older than the
// minimum, and the same in all modules that CI builds; attach is built by others with what they have.
func TestToolchain(t *testing.T) {
	lines := regexp.MustCompile(`(?m)^go (\S+)$(?:\n\n^toolchain (\S+)$)?`)
	want := ""
	for _, file := range []string{"go.mod", "tools/go.mod", "tools/actionlint/go.mod", "tools/nfpm/go.mod", "tools/release/go.mod"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		m := lines.FindStringSubmatch(string(text))
		require.NotNil(t, m, file)
		require.True(t, version.IsValid(m[2]), "%s has no toolchain line behind its go line", file)
		assert.Positive(t, version.Compare(m[2], "go"+m[1]), "%s: toolchain %s, go %s", file, m[2], m[1])
		if want == "" {
			want = m[2]
		}
		assert.Equal(t, want, m[2], "%s: not the toolchain of go.mod", file)
	}
	from := regexp.MustCompile(`(?m)uses: actions/setup-go@\S+.*\n\s+with:\n\s+(\S.*)$`)
	for _, file := range []string{".github/workflows/test.yml", ".github/workflows/release.yml"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		uses := from.FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, uses, file)
		for _, use := range uses {
			assert.Equal(t, "go-version-file: go.mod", use[1], file)
		}
	}
}
