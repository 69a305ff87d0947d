// SPDX-License-Identifier: Apache-2.0

//go:build !race

// It takes long, and nothing in it runs at the same time as anything else.

package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestArtifacts makes the archives in two places, under conditions that must not matter, and looks into them.
func TestArtifacts(t *testing.T) {
	const epoch = 1_700_000_000
	here, there := filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "there, at another place")
	copySources(t, "../..", here, 0o755)
	copySources(t, here, there, 0o700)
	first := makeArtifacts(t, here, "VERSION=v1.2.3-test", "SOURCE_DATE_EPOCH=1700000000")
	second := makeArtifacts(t, there, "VERSION=v1.2.3-test", "SOURCE_DATE_EPOCH=1700000000",
		"GOFLAGS=-tags=vmnetsim", "GOAMD64=v3", "GOOS=plan9", "GOARCH=386", "CGO_ENABLED=1", "TZ=Asia/Tokyo", "LC_ALL=C")

	names := []string{"SHA256SUMS", "build-env.txt", "socket_vmnet-1.2.3-test-arm64.tar.gz", "socket_vmnet-1.2.3-test-x86_64.tar.gz"}
	assert.ElementsMatch(t, names, keys(first))
	assert.ElementsMatch(t, names, keys(second))
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
	for _, arch := range architectures {
		t.Run(arch.name, func(t *testing.T) {
			checkArchive(t, first["socket_vmnet-1.2.3-test-"+arch.name+".tar.gz"], arch, time.Unix(epoch, 0))
		})
	}
}

// copySources copies what the artifacts are made of, with the given mode.
func copySources(t *testing.T, from, to string, mode fs.FileMode) {
	t.Helper()
	for _, name := range []string{"go.mod", "go.sum", "Makefile", "README.md", "LICENSE", "CHANGELOG.md", "etc", "cmd", "internal"} {
		copyTree(t, filepath.Join(from, name), filepath.Join(to, name), mode)
	}
}

// makeArtifacts makes the artifacts in dir and returns them by name.
func makeArtifacts(t *testing.T, dir string, env ...string) map[string][]byte {
	t.Helper()
	var args []string
	for _, v := range env {
		if strings.HasPrefix(v, "VERSION=") {
			args = append(args, v)
		}
	}
	c := exec.CommandContext(t.Context(), "make", append(args, "artifacts")...)
	c.Dir = dir
	c.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	c.Env = append(c.Env, env...)
	start := time.Now()
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("make artifacts took %v", time.Since(start).Round(time.Millisecond))
	made := map[string][]byte{}
	entries, err := os.ReadDir(filepath.Join(dir, "artifacts"))
	require.NoError(t, err)
	for _, e := range entries {
		made[e.Name()], err = os.ReadFile(filepath.Join(dir, "artifacts", e.Name()))
		require.NoError(t, err)
	}
	return made
}

// copyTree copies a file, or a directory with all in it.
func copyTree(t *testing.T, from, to string, mode fs.FileMode) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, mode)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(target), mode); err != nil {
			return err
		}
		return os.WriteFile(target, b, mode&^0o111)
	}))
}

// checkArchive looks at everything in an archive.
func checkArchive(t *testing.T, packed []byte, arch architecture, when time.Time) {
	headers, contents := unpack(t, packed)
	var listing []string
	for _, h := range headers {
		listing = append(listing, fmt.Sprintf("%v %s", h.FileInfo().Mode(), h.Name))
		assert.True(t, h.ModTime.Equal(when), "%s is of %v", h.Name, h.ModTime)
		assert.Zero(t, h.Uid, h.Name)
		assert.Zero(t, h.Gid, h.Name)
		assert.Empty(t, h.Uname+h.Gname+h.Linkname, h.Name)
		assert.Empty(t, h.PAXRecords, h.Name)
	}
	assert.Equal(t, []string{
		"drwxr-xr-x ./opt/",
		"drwxr-xr-x ./opt/socket_vmnet/",
		"drwxr-xr-x ./opt/socket_vmnet/bin/",
		"-rwxr-xr-x ./opt/socket_vmnet/bin/socket_vmnet",
		"-rwxr-xr-x ./opt/socket_vmnet/bin/socket_vmnet2",
		"-rwxr-xr-x ./opt/socket_vmnet/bin/socket_vmnet_client",
		"drwxr-xr-x ./opt/socket_vmnet/libexec/",
		"-rwxr-xr-x ./opt/socket_vmnet/libexec/vmnet-helper",
		"drwxr-xr-x ./opt/socket_vmnet/share/",
		"drwxr-xr-x ./opt/socket_vmnet/share/doc/",
		"drwxr-xr-x ./opt/socket_vmnet/share/doc/socket_vmnet/",
		"-rw-r--r-- ./opt/socket_vmnet/share/doc/socket_vmnet/CHANGELOG.md",
		"-rw-r--r-- ./opt/socket_vmnet/share/doc/socket_vmnet/LICENSE",
		"-rw-r--r-- ./opt/socket_vmnet/share/doc/socket_vmnet/LICENSE.third-party",
		"-rw-r--r-- ./opt/socket_vmnet/share/doc/socket_vmnet/README.md",
		"-rw-r--r-- ./opt/socket_vmnet/share/doc/socket_vmnet/entitlements.plist",
	}, listing)

	t.Chdir("../..") // where the checks find the entitlements
	const top, bin, doc = "./opt/socket_vmnet/", "./opt/socket_vmnet/bin/", "./opt/socket_vmnet/share/doc/socket_vmnet/"
	for _, p := range programs {
		for _, name := range p.names {
			assert.NoError(t, p.check(contents[top+cmp.Or(p.dir, "bin")+"/"+name], arch, "v1.2.3-test"), name)
		}
	}
	assert.Equal(t, sha256.Sum256(contents[bin+"socket_vmnet"]), sha256.Sum256(contents[bin+"socket_vmnet2"]), "one program under two names")
	for _, file := range []string{"README.md", "LICENSE", "CHANGELOG.md"} {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, string(b), string(contents[doc+file]))
	}
	licences := string(contents[doc+"LICENSE.third-party"])
	for _, module := range []string{"Go: LICENSE\n", "\ngvisor.dev/gvisor v", "\ngithub.com/urfave/cli/v2 v"} {
		assert.Contains(t, licences, module)
	}
}

func keys(m map[string][]byte) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
