// SPDX-License-Identifier: Apache-2.0

//go:build !race

// It takes long, and nothing in it runs at the same time as anything else.

package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestArtifacts makes the archives in two places, under conditions that must not matter, and looks into them.
func TestArtifacts(t *testing.T) {
	here, there := filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "there, at another place")
	copySources(t, root, here, "022")
	copySources(t, here, there, "077")
	one, other := makeArtifacts(t, here), makeArtifacts(t, there,
		"GOFLAGS=-tags=vmnetsim", "GOAMD64=v3", "GOOS=plan9", "GOARCH=386", "CGO_ENABLED=1", "TZ=Asia/Tokyo", "LC_ALL=C")
	first, second := one(), other()

	names := []string{
		"SHA256SUMS", "build-env.txt", "sbom.cdx.json", "socket-vmnet2-1.2.3~test-1.aarch64.rpm", "socket-vmnet2-1.2.3~test-1.x86_64.rpm",
		"socket-vmnet2_1.2.3~test_amd64.deb", "socket-vmnet2_1.2.3~test_arm64.deb", "socket_vmnet-1.2.3-test-arm64.tar.gz", "socket_vmnet-1.2.3-test-linux-arm64.tar.gz",
		"socket_vmnet-1.2.3-test-linux-x86_64.tar.gz", "socket_vmnet-1.2.3-test-x86_64.tar.gz",
	}
	assert.ElementsMatch(t, names, slices.Collect(maps.Keys(first)))
	assert.ElementsMatch(t, names, slices.Collect(maps.Keys(second)))
	var sums string
	for _, name := range names {
		assert.Equal(t, sha256.Sum256(first[name]), sha256.Sum256(second[name]), "%s differs", name)
		if name != "SHA256SUMS" {
			sums += fmt.Sprintf("%x  %s\n", sha256.Sum256(first[name]), name)
		}
		t.Logf("%s: %d bytes", name, len(first[name]))
	}
	assert.Equal(t, sums, string(first["SHA256SUMS"]))
	assert.Contains(t, string(first["build-env.txt"]), "\nVERSION: v1.2.3-test\nSOURCE_DATE_EPOCH: 1700000000\n")
	checkBillOfMaterials(t, first["sbom.cdx.json"])
	for _, on := range targets {
		t.Run(on.name, func(t *testing.T) {
			checkArchive(t, first["socket_vmnet-1.2.3-test-"+on.name+".tar.gz"], on, time.Unix(1_700_000_000, 0))
		})
	}
	for deb, rpm := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		t.Run(deb, func(t *testing.T) {
			checkPackages(t, deb, first["socket-vmnet2_1.2.3~test_"+deb+".deb"], first["socket-vmnet2-1.2.3~test-1."+rpm+".rpm"])
		})
	}
}

// checkBillOfMaterials: purego is in the programs for macOS alone, gVisor in all, testify in none.
func checkBillOfMaterials(t *testing.T, text []byte) {
	t.Helper()
	var bom struct {
		BOMFormat  string
		Metadata   struct{ Component struct{ Version string } }
		Components []struct{ Name, Version, PURL string }
	}
	require.NoError(t, json.Unmarshal(text, &bom))
	assert.Equal(t, "CycloneDX", bom.BOMFormat)
	assert.Equal(t, "v1.2.3-test", bom.Metadata.Component.Version)
	versions := map[string]string{}
	for _, c := range bom.Components {
		assert.Equal(t, "pkg:golang/"+c.Name+"@"+c.Version, c.PURL)
		versions[c.Name] = c.Version
	}
	assert.Equal(t, strings.TrimPrefix(runtime.Version(), "go"), versions["std"])
	assert.Regexp(t, `^v0\.\d+\.\d+$`, versions["github.com/ebitengine/purego"])
	assert.Contains(t, versions, "gvisor.dev/gvisor")
	assert.NotContains(t, versions, "github.com/stretchr/testify")
}

// copySources copies what the artifacts are made of, with the modes that umask leaves.
func copySources(t *testing.T, from, to, umask string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", `umask "$3"; mkdir -p "$2/tools"; cd "$1"
		cp -R go.mod go.sum Makefile README.md MIGRATION.md LICENSE CHANGELOG.md docs etc cmd internal "$2"
		cp -R tools/release tools/nfpm "$2/tools"`, "sh", from, to, umask).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// makeArtifacts begins to make the artifacts in dir; the function that it returns waits for them, and gives them by name.
func makeArtifacts(t *testing.T, dir string, env ...string) func() map[string][]byte {
	t.Helper()
	c := exec.CommandContext(t.Context(), "make", "artifacts", "VERSION=v1.2.3-test")
	c.Dir = dir
	c.Env = append(append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=", "SOURCE_DATE_EPOCH=1700000000"), env...)
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	require.NoError(t, c.Start())
	return func() map[string][]byte {
		require.NoError(t, c.Wait(), "%s", &out)
		made := map[string][]byte{}
		entries, err := os.ReadDir(filepath.Join(dir, "artifacts"))
		require.NoError(t, err)
		for _, e := range entries {
			made[e.Name()], err = os.ReadFile(filepath.Join(dir, "artifacts", e.Name()))
			require.NoError(t, err)
		}
		return made
	}
}

const (
	testTop = "./opt/socket_vmnet/"
	testDoc = testTop + "share/doc/socket_vmnet/"
)

// wantedDocuments are what make install.doc installs, as far as it is of a system, by their names in its archives. Which these are
// is in the repository's makefile_test.go.
func wantedDocuments(t *testing.T, goos string) map[string]string {
	t.Helper()
	dest, wanted := t.TempDir(), map[string]string{}
	c := exec.CommandContext(t.Context(), "make", "install.doc", "DESTDIR="+dest, "PREFIX=/opt/socket_vmnet", "GO=false")
	c.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	others := regexp.MustCompile(map[string]string{"darwin": "/(systemd|sysusers.d)/", "linux": "/(launchd|etc_sudoers.d)/"}[goos])
	require.NoError(t, filepath.WalkDir(dest, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !others.MatchString(path) {
			var b []byte
			b, err = os.ReadFile(path)
			wanted["."+strings.TrimPrefix(path, dest)] = string(b)
		}
		return err
	}))
	if goos == "darwin" {
		b, err := os.ReadFile("etc/entitlements.plist")
		require.NoError(t, err)
		wanted[testDoc+"entitlements.plist"] = string(b)
	}
	for dir, n := range map[string]int{"docs/man": 3, "etc/completions": 3} {
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Len(t, files, n, "%s: a file that is not in the archives", dir)
	}
	return wanted
}

// checkArchive looks at everything in an archive.
func checkArchive(t *testing.T, packed []byte, on target, when time.Time) {
	t.Chdir(root) // where the checks find the entitlements
	headers, contents := unpack(t, packed)
	var listing []string
	for _, h := range headers {
		mode := fs.FileMode(0o644)
		switch {
		case strings.HasSuffix(h.Name, "/"):
			mode = fs.ModeDir | 0o755
		default:
			listing = append(listing, h.Name)
			if slices.Contains([]string{"bin", "libexec"}, filepath.Base(filepath.Dir(h.Name))) {
				mode = 0o755
			}
		}
		assert.Equal(t, mode, h.FileInfo().Mode(), h.Name)
		assert.True(t, h.ModTime.Equal(when), "%s is of %v", h.Name, h.ModTime)
		assert.Zero(t, h.Uid, h.Name)
		assert.Zero(t, h.Gid, h.Name)
		assert.Empty(t, h.Uname+h.Gname+h.Linkname, h.Name)
		assert.Empty(t, h.PAXRecords, h.Name)
	}
	assert.Equal(t, []string{"./opt/", testTop, testTop + "bin/"}, []string{headers[0].Name, headers[1].Name, headers[2].Name})
	documents := wantedDocuments(t, on.goos)
	assert.ElementsMatch(t, append(slices.Collect(maps.Keys(documents)),
		testTop+"bin/socket_vmnet", testTop+"bin/socket_vmnet2", testTop+"bin/socket_vmnet_client", testTop+"libexec/vmnet-helper",
		testDoc+"LICENSE.third-party",
	), listing)

	for _, p := range programs {
		for _, name := range p.names {
			binary := contents[testTop+cmp.Or(p.dir, "bin")+"/"+name]
			assert.NoError(t, p.check(binary, on, "v1.2.3-test"), name)
			if on.goos == "darwin" {
				again, err := p.sign(binary)
				require.NoError(t, err)
				assert.Equal(t, sha256.Sum256(again), sha256.Sum256(binary), "%s is signed, as it is and with its entitlements", name)
			}
		}
	}
	assert.Equal(t, sha256.Sum256(contents[testTop+"bin/socket_vmnet"]), sha256.Sum256(contents[testTop+"bin/socket_vmnet2"]), "one program under two names")
	for name, text := range documents {
		assert.Equal(t, text, string(contents[name]), name)
	}
	licences := string(contents[testDoc+"LICENSE.third-party"])
	for _, module := range []string{"Go: LICENSE\n", "\ngvisor.dev/gvisor v", "\ngithub.com/urfave/cli/v2 v"} {
		assert.Contains(t, licences, module)
	}
	if on.goos == runtime.GOOS && on.goarch == runtime.GOARCH {
		checkRuns(t, contents[testTop+"bin/socket_vmnet2"])
	}
}

// checkRuns starts the program of this machine's archive.
func checkRuns(t *testing.T, program []byte) {
	file := filepath.Join(t.TempDir(), "socket_vmnet2")
	require.NoError(t, os.WriteFile(file, program, 0o755))
	out, err := exec.CommandContext(t.Context(), file, "--version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "v1.2.3-test\n", string(out))
}
