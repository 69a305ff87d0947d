// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tcpdump is where it is on this machine.
func tcpdump(t *testing.T) []string {
	t.Helper()
	for _, path := range Tcpdump {
		if _, err := os.Stat(path); err == nil {
			return Tcpdump
		}
	}
	path, err := exec.LookPath("tcpdump")
	if err != nil {
		if os.Getenv("CI") != "" {
			require.NoError(t, err)
		}
		t.Skip("needs tcpdump: test/e2e/setup.sh tools")
	}
	return []string{path}
}

// ethernet is an ARP request, or else a TCP segment from 192.168.105.2, port 1000, to 192.168.105.3, port 80.
func ethernet(arp bool) []byte {
	b := make([]byte, 60)
	if arp {
		b[12], b[13] = 8, 6
		return b
	}
	copy(b[12:], []byte{8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 192, 168, 105, 2, 192, 168, 105, 3, 1000 >> 8, 1000 & 255, 0, 80})
	return b
}

func TestCompile(t *testing.T) {
	for filter, want := range map[string]struct{ arp, tcp bool }{
		"arp":                        {arp: true},
		"tcp and (port 22 or 80)":    {tcp: true},
		"  src host 192.168.105.2  ": {tcp: true},
		"udp":                        {},
		"not udp":                    {arp: true, tcp: true},
		"len >= 60":                  {arp: true, tcp: true},
	} {
		t.Run(filter, func(t *testing.T) {
			p, err := Compile(t.Context(), filter, tcpdump(t))
			require.NoError(t, err)
			vm, err := newFilter(p)
			require.NoError(t, err)
			for arp, want := range map[bool]bool{true: want.arp, false: want.tcp} {
				assert.Equal(t, want, accepts(vm, ethernet(arp)), "ARP: %v", arp)
			}
		})
	}
}

// TestRefused: what tcpdump says about a wrong filter, in one line without control characters; no filter is an option of tcpdump's.
func TestRefused(t *testing.T) {
	for _, filter := range []string{
		"bogus", "port", "( tcp", "port 99999", "host 300.1.1.1", "net 192.168.105.1/24", "tcp and udp", "inbound", "or tcp", "-w /tmp/x", "--version", "tcp; ls",
		"port 80\x1b[2J",
	} {
		t.Run(filter, func(t *testing.T) {
			_, err := Compile(t.Context(), filter, tcpdump(t))
			require.ErrorContains(t, err, "the filter")
			assert.NotContains(t, err.Error(), "\x1b")
			assert.NotContains(t, err.Error(), "reading from")
		})
	}
}

func TestCompileLimits(t *testing.T) {
	p, err := Compile(t.Context(), "  ", nil)
	require.NoError(t, err)
	assert.Empty(t, p)
	_, err = Compile(t.Context(), strings.Repeat("x", maxSource+1), nil)
	assert.ErrorContains(t, err, "longer than")
	_, err = Compile(t.Context(), "tcp\x00", nil)
	assert.ErrorContains(t, err, "NUL")
	_, err = Compile(t.Context(), "tcp", []string{"/nowhere/a", "/nowhere/b"})
	assert.EqualError(t, err, "a filter takes tcpdump, and there is no /nowhere/a and no /nowhere/b: install it (the package is tcpdump), or capture without a filter")
}

// TestOddTcpdump: what stands in for tcpdump, the error says what happened.
func TestOddTcpdump(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"says nothing", "exit 1", "exit status 1"},
		{"prints nothing", "exit 0", "prints no program"},
		{"prints text", "echo hello", "prints no program"},
		{"too long", "echo 4097", "prints no program"},
		{"cut", "echo 2; echo 6 0 0 0", "prints no program"},
		{"more", "echo 1; echo 6 0 0 0; echo 6 0 0 0", "prints no program"},
		{"out of range", "echo 1; echo 6 0 -1 0", "no instruction 0"},
		{"endless", "while :; do echo 6 0 0 0; done", "not compiled the filter within"},
		{"last complaint", "echo tcpdump: WARNING: a >&2; echo tcpdump: syntax error >&2; exit 1", "\": syntax error"},
		{"no program", "", "compile the filter with"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tcpdump")
			content := "#!/bin/sh\n" + c.script + "\n"
			if c.script == "" {
				content = "no program"
			}
			require.NoError(t, os.WriteFile(path, []byte(content), 0o755))
			ctx := t.Context()
			if c.name == "endless" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, compileTime/50, context.DeadlineExceeded)
				defer cancel()
				c.want = "deadline"
			}
			_, err := Compile(ctx, "tcp", []string{path})
			assert.ErrorContains(t, err, c.want)
		})
	}
}
