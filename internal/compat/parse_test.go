// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"net/netip"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// run is one call of Parse and all that it did.
type run struct {
	cfg            *Config
	code           int
	stdout, stderr string
}

// parse calls Parse with the environment given as KEY or KEY=VALUE.
func parse(t testing.TB, p Personality, argv []string, env ...string) run {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cfg, code := Parse(p, argv, IO{Stdout: &stdout, Stderr: &stderr, LookupEnv: func(key string) (string, bool) {
		for _, e := range env {
			if k, v, _ := strings.Cut(e, "="); k == key {
				return v, true
			}
		}
		return "", false
	}})
	return run{cfg: cfg, code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// words splits a command line at spaces and puts the old program's name in front.
func words(line string) []string { return append([]string{"socket_vmnet"}, strings.Fields(line)...) }

// addressed is a Config with addresses and all defaults else.
func addressed(sock, gw, subnet, end string, more func(*Config)) *Config {
	c := defaultConfig()
	c.SocketPath = sock
	c.Gateway = netip.MustParseAddr(gw)
	c.Subnet = netip.MustParsePrefix(subnet)
	c.DHCPEnd = netip.MustParseAddr(end)
	if more != nil {
		more(&c)
	}
	return &c
}

// TestGetoptTable is what users rely on of getopt_long, and where urfave/cli alone would do something else.
func TestGetoptTable(t *testing.T) {
	plain := func(more func(*Config)) *Config {
		return addressed("/s", "192.168.105.1", "192.168.105.0/24", "192.168.105.254", more)
	}
	host := func(c *Config) { c.Mode = network.ModeHost }
	pid := func(p string) func(*Config) {
		return func(c *Config) { c.Pidfile, c.PidfileSet = p, true }
	}
	const gw = "--vmnet-gateway=192.168.105.1 "
	for _, c := range []struct {
		name string
		argv string
		env  []string
		want *Config
	}{
		{"option after socket", "/s --vmnet-mode=host " + gw, nil, plain(host)},
		{"separate value", gw + "--vmnet-mode host /s", nil, plain(host)},
		{"short with attached value", gw + "-p/pid /s", nil, plain(pid("/pid"))},
		{"short with equals sign", gw + "-p=/pid /s", nil, plain(pid("=/pid"))},
		{"exact name wins", gw + "--vmnet-interface en0 /s", nil, plain(func(c *Config) { c.Interface = "en0" })},
		{"empty value", gw + "--pidfile= /s", nil, plain(pid(""))},
		{"last one wins", gw + "--vmnet-mode=shared --vmnet-mode=host -p a --pidfile=b /s", nil, plain(func(c *Config) { host(c); pid("b")(c) })},
		{"value like an option", gw + "--pidfile --vmnet-mode=host /s", nil, plain(pid("--vmnet-mode=host"))},
		{"value of two dashes", gw + "-p -- /s", nil, plain(pid("--"))},
		{"dash operand", gw + "-", nil, addressed("-", "192.168.105.1", "192.168.105.0/24", "192.168.105.254", nil)},
		{"operand like an option", gw + "-- -v", nil, addressed("-v", "192.168.105.1", "192.168.105.0/24", "192.168.105.254", nil)},
		{"debug by presence", gw + "/s", []string{"DEBUG="}, plain(func(c *Config) { c.Debug = true })},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parse(t, Old, words(c.argv), c.env...)
			assert.Zero(t, r.code)
			assert.Equal(t, c.want, r.cfg)
			assert.Empty(t, r.stdout)
			assert.Empty(t, r.stderr)
		})
	}
}

// TestGetoptEnds are the command lines that do not start a daemon.
func TestGetoptEnds(t *testing.T) {
	const (
		usage   = "Usage: socket_vmnet [OPTION]... SOCKET\n"
		version = "v0.0.0-dev\n"
	)
	for _, c := range []struct {
		name   string
		argv   string
		env    []string
		code   int
		stdout string // begin
		stderr string // begin of the whole
	}{
		{"nothing", "", nil, 1, usage, ""},
		{"help", "--help", nil, 0, usage, ""},
		{"version", "--version", nil, 0, version, ""},
		{"cluster, help first", "-hv", nil, 0, usage, ""},
		{"one dash and a long name", "-vmnet-mode=x", nil, 0, version, ""},
		{"nonsense before help", "--bogus -h", nil, 1, usage, "ERROR| unknown option --bogus\n"},
		{"bad mode before help", "--vmnet-mode=bad -h", nil, 1, usage, "ERROR| Unknown vmnet mode \"bad\"\n"},
		{"bad gateway before help", "--vmnet-gateway=bad -h", nil, 0, usage, ""},
		{"bad UUID before help", "--vmnet-interface-id=x -h", nil, 1, usage, "ERROR| Failed to parse UUID \"x\"\n"},
		{"bad network UUID", "--vmnet-network-identifier=x /s", nil, 1, usage, "ERROR| Failed to parse network identifier UUID \"x\"\n"},
		{"ambiguous m", "--vmnet-m=host /s", nil, 1, usage, "ERROR| option --vmnet-m is ambiguous: --vmnet-mode --vmnet-mask\n"},
		{"empty name", "--=x /s", nil, 1, usage, "ERROR| option -- is ambiguous: "},
		{"argument to one without", "--vmnet-disable-dhcp=false /s", nil, 1, usage, "ERROR| option --vmnet-disable-dhcp takes no argument\n"},
		{"unknown letter", "-x /s", nil, 1, usage, "ERROR| unknown option -x\n"},
		{"socket taken as a value", "--pidfile /s", nil, 1, usage, ""},
		{"POSIXLY_CORRECT", "/s --vmnet-mode=host", []string{"POSIXLY_CORRECT="}, 1, usage, ""},
		{"new option in the old program", "--backend=usernet /s", nil, 1, usage, "ERROR| unknown option --backend\n"},
		{"control characters", "--bo\x1b[31m /s", nil, 1, usage, "ERROR| unknown option --bo\\x1b[31m\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parse(t, Old, words(c.argv), c.env...)
			assert.Nil(t, r.cfg)
			assert.Equal(t, c.code, r.code)
			require.True(t, strings.HasPrefix(r.stdout, c.stdout), r.stdout)
			if c.stdout == version {
				assert.Equal(t, version, r.stdout)
			}
			if c.stderr == "" {
				assert.Empty(t, r.stderr)
			}
			require.True(t, strings.HasPrefix(r.stderr, c.stderr), r.stderr)
		})
	}
}

// TestVersionOf: a module that go install fetched has a checksum; a source tree has a version of git's at most.
func TestVersionOf(t *testing.T) {
	assert.Equal(t, "v1.2.3", versionOf(&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3", Sum: "h1:x"}}))
	assert.Equal(t, "v0.0.0-dev", versionOf(&debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20260102030405-abcdef+dirty"}}))
}
