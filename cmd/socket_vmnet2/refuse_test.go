// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// result is how a daemon that must not start ended.
type result struct {
	code           int
	stdout, stderr string
}

// refused runs name with args in dir and checks that it exits with 1 and leaves dir as it was.
func refused(t *testing.T, dir, name string, args ...string) result {
	t.Helper()
	before := listing(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(binaries, name), args...)
	cmd.Dir = dir
	var stdout, stderr output
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "it started or was killed: %s", &stderr)
	assert.Equal(t, 1, exit.ExitCode())
	assert.Equal(t, before, listing(t, dir), "nothing is made or removed")
	return result{exit.ExitCode(), stdout.String(), stderr.String()}
}

// listing is the names and kinds of the files in dir, but for lock files.
func listing(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".lock") {
			continue
		}
		fi, err := e.Info()
		require.NoError(t, err)
		names = append(names, fi.Mode().String()+" "+e.Name())
	}
	return names
}

func TestHomebrewFormulaContract(t *testing.T) {
	for _, name := range []string{"socket_vmnet", "socket_vmnet2"} {
		r := refused(t, t.TempDir(), name, "/dev/null")
		assert.Contains(t, r.stderr, "ERROR| bind: Address already in use\n")
	}
	fi, err := os.Lstat("/dev/null")
	require.NoError(t, err)
	assert.NotZero(t, fi.Mode()&os.ModeCharDevice, "/dev/null is still there")
}

func TestSocketPathsThatAreRefused(t *testing.T) {
	long := "./" + strings.Repeat("x", 118)
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		path string
		want string
	}{
		"directory":     {make: func(t *testing.T, p string) { require.NoError(t, os.Mkdir(p, 0o700)) }, want: "bind: Address already in use"},
		"regular file":  {make: func(t *testing.T, p string) { require.NoError(t, os.WriteFile(p, nil, 0o600)) }, want: "bind: Address already in use"},
		"symlink":       {make: func(t *testing.T, p string) { require.NoError(t, os.Symlink("elsewhere", p)) }, want: "bind: Address already in use"},
		"too long":      {path: long, want: "the socket path is too long: 120"},
		"no such place": {path: "missing/s", want: "bind: No such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.path == "" {
				c.path = "./s"
			}
			if c.make != nil {
				c.make(t, filepath.Join(dir, c.path))
			}
			r := refused(t, dir, "socket_vmnet2", "--backend=usernet", c.path)
			assert.Contains(t, r.stderr, "ERROR| "+c.want+"\n")
		})
	}
}

func TestPidfilesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		path string
		want string
	}{
		"directory":     {make: func(t *testing.T, p string) { require.NoError(t, os.Mkdir(p, 0o700)) }, want: "Is a directory"},
		"symlink":       {make: func(t *testing.T, p string) { require.NoError(t, os.Symlink("elsewhere", p)) }, want: "Too many levels of symbolic links"},
		"/dev/null":     {path: "/dev/null", want: "Invalid argument"},
		"no such place": {path: "missing/pid", want: "No such file or directory"},
		"too long":      {path: strings.Repeat("x", 300), want: "File name too long"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.path == "" {
				c.path = "pid"
			}
			if c.make != nil {
				c.make(t, filepath.Join(dir, c.path))
			}
			r := refused(t, dir, "socket_vmnet2", "--backend=usernet", "-p", c.path, "./s")
			assert.Contains(t, r.stderr, `ERROR| Failed to open pidfile: "`+c.path+`": `+c.want+"\n")
		})
	}
}

func TestFlagsThatAreRefused(t *testing.T) {
	for name, args := range map[string][]string{
		"mode":                  {"--vmnet-mode=x"},
		"gateway":               {"--vmnet-gateway=1.2.3.4.5"},
		"gateway is a network":  {"--vmnet-gateway=192.168.105.0"},
		"DHCP end alone":        {"--vmnet-dhcp-end=192.168.105.20"},
		"DHCP end":              {"--vmnet-gateway=192.168.105.1", "--vmnet-dhcp-end=x"},
		"DHCP end elsewhere":    {"--vmnet-gateway=192.168.105.1", "--vmnet-dhcp-end=192.168.106.9"},
		"mask alone":            {"--vmnet-mask=255.255.255.0"},
		"mask":                  {"--vmnet-gateway=192.168.105.1", "--vmnet-mask=255.0.255.0"},
		"bridged, no interface": {"--vmnet-mode=bridged"},
		"bridged and gateway":   {"--vmnet-mode=bridged", "--vmnet-interface=en0", "--vmnet-gateway=192.168.105.1"},
		"interface id":          {"--vmnet-interface-id=x"},
		"network identifier":    {"--vmnet-network-identifier=x"},
		"NAT66 prefix":          {"--vmnet-nat66-prefix=2001:db8::"},
		"back end":              {"--backend=x"},
		"queue size":            {"--queue-size=1K"},
		"max clients":           {"--max-clients=0"},
		"socket mode":           {"--socket-mode=999"},
		"unknown group":         {"--socket-group=no-such-group"},
		"unknown user":          {"--socket-user=no-such-user"},
		"unknown option":        {"--nonsense"},
		"argument not wanted":   {"--vmnet-disable-dhcp=false"},
		"DNS record":            {"--dns-record=x"},
	} {
		t.Run(name, func(t *testing.T) {
			r := refused(t, t.TempDir(), "socket_vmnet2", append(args, "./s")...)
			assert.NotEmpty(t, r.stderr, "it says why")
		})
	}
	t.Run("bridged without vmnet", func(t *testing.T) {
		r := refused(t, t.TempDir(), "socket_vmnet2", "--backend=usernet", "--vmnet-mode=bridged", "--vmnet-interface=en0", "./s")
		assert.Contains(t, r.stderr, "needs macOS vmnet")
	})
	if runtime.GOOS == "darwin" {
		return // there is vmnet
	}
	t.Run("vmnet", func(t *testing.T) {
		r := refused(t, t.TempDir(), "socket_vmnet2", "--backend=vmnet", "./s")
		assert.Contains(t, r.stderr, "--backend=usernet")
	})
}
