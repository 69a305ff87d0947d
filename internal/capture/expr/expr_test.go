// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
)

// A how is what the library may be trusted with.
type how int

const (
	same    how = iota // the library does it, and as tcpdump
	refused            // it would be wrong or does not know it
	invalid            // tcpdump refuses it, so it is refused here as well
)

// expressions are filters, and how they are compiled without tcpdump.
var expressions = map[how][]string{
	same: {
		"tcp", "udp", "port 80", "src port 80", "dst port 80", "port 53", "tcp port 80", "tcp port 22", "tcp src port 80", "tcp dst port 80",
		"udp port 53", "udp src port 53", "udp dst port 53", "host 192.168.105.2", "src host 192.168.105.2", "dst host 192.168.105.3",
		"host fd00::2", "src host fd00::2", "dst host fd00::3", "net 192.168.105.0/24", "net 10.0.0.0/8", "src net 192.168.105.0/24",
		"dst net 10.0.0.0/8", "net fd00::/8", "ether host 52:54:00:12:34:56", "ether src host 52:54:00:12:34:56",
		"ether dst host ff:ff:ff:ff:ff:ff", "tcp or udp", "port 67 or port 68", "udp port 67 or udp port 68", "tcp port 22 or udp port 53",
		"host 192.168.105.2 or host 192.168.105.3", "not port 22", "not tcp port 22", "not host 192.168.105.2", "not tcp", "not udp",
		"host 192.168.105.2 and port 80", "host 192.168.105.2 and tcp port 80", "src host 192.168.105.2 and dst host 192.168.105.3",
		"src net 192.168.105.0/24 and dst port 53", "port 80 and port 40000", "  tcp   port 80 ",
		"port 22 or port 53 or port 80 or udp", "tcp port 80 or ether host 52:54:00:ab:cd:ef or net fd00::/8",
	},
	refused: {
		"arp", "rarp", "ip", "ip6", "icmp", "icmp6", "igmp", "sctp", "esp", "ip proto 6", "ip proto \\tcp", "ether proto 0x88b5",
		"not arp", "! arp", "tcp and port 80", "udp and port 53", "tcp and host 192.168.105.2", "tcp and not port 22", "host fd00::2 and udp",
		"arp or icmp", "portrange 50-100", "tcp portrange 80-443", "greater 500", "less 100", "len > 500", "tcp[13] & 2 != 0",
		"tcp[tcpflags] & tcp-syn != 0", "ip[0] & 0xf > 5", "udp[8:2] = 0", "ether[12:2] = 0x806", "icmp[icmptype] = icmp-echo",
		"broadcast", "multicast", "ip multicast", "ip6 multicast", "vlan", "vlan 5", "vlan 5 and tcp port 80", "sctp port 80",
		"not (port 22 or port 53)", "udp and (port 67 or port 68)", "arp or (tcp and port 22)", "tcp || udp", "portrange 9",
		"net 192.168", "net 192.168.0.0 mask 255.255.0.0", "net 0.0.0.0/0", "src or dst port 80", "ether src 52:54:00:12:34:56",
		"host 192.168.105.2 and port 80 and dst port 53", "port 67 or port 68 and host 192.168.105.2", "not port 22 and tcp",
	},
	invalid: {
		"bogus", "port", "host", "tcp port", "and", "tcp and", "( tcp", "tcp )", "port 99999", "port 80 80", "tcp udp", "not", "12",
		"host 300.1.1.1", "net 1.2.3.4/40", "net 192.168.105.1/24", "ether host 1:2", "tcp port 80 and", "vlan 99999", "port 080", "arp arp",
		"ip6 port 80", "tcp and udp", "inbound", "or", "or tcp", "-w /tmp/x", "--version", "tcp; ls", "port 80\x1b[2J", "ether port 80",
	},
}

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

// accepts runs a program on a frame.
func accepts(t *testing.T, p []bpf.RawInstruction, f []byte) bool {
	t.Helper()
	instructions, ok := bpf.Disassemble(p)
	require.True(t, ok)
	vm, err := bpf.NewVM(instructions)
	require.NoError(t, err)
	n, err := vm.Run(f)
	require.NoError(t, err)
	return n != 0
}

// compare tries both programs on all samples.
func compare(t *testing.T, all []sample, text string, theirs []string) {
	t.Helper()
	ours, err := Compile(t.Context(), text, nil)
	require.NoError(t, err, text)
	right, err := Compile(t.Context(), text, theirs)
	require.NoError(t, err, text)
	for _, s := range all {
		assert.Equal(t, accepts(t, right, s.data), accepts(t, ours, s.data), "%s: %s", text, s.name)
	}
}

func TestLibraryAgainstTcpdump(t *testing.T) {
	theirs, all := tcpdump(t), samples(t)
	for _, text := range expressions[same] {
		t.Run(text, func(t *testing.T) { compare(t, all, text, theirs) })
	}
	for _, text := range expressions[refused] {
		t.Run(text, func(t *testing.T) {
			_, err := Compile(t.Context(), text, nil)
			require.ErrorIs(t, err, ErrNeedsTcpdump)
			p, err := Compile(t.Context(), text, theirs)
			require.NoError(t, err)
			for _, s := range all {
				accepts(t, p, s.data) // what libpcap makes runs
			}
		})
	}
	for _, text := range expressions[invalid] {
		t.Run(text, func(t *testing.T) {
			_, err := Compile(t.Context(), text, nil)
			require.ErrorIs(t, err, ErrNeedsTcpdump)
			_, err = Compile(t.Context(), text, theirs)
			require.ErrorContains(t, err, "the filter")
			assert.NotContains(t, err.Error(), "\x1b")
			assert.NotContains(t, err.Error(), "reading from")
		})
	}
}

// TestLibraryJoins compares what is joined of two conditions of each kind.
func TestLibraryJoins(t *testing.T) {
	theirs, all := tcpdump(t), samples(t)
	kinds := []string{
		"tcp", "udp", "port 80", "src port 80", "tcp port 22", "udp dst port 53", "host 192.168.105.2", "dst host 192.168.105.3",
		"host fd00::2", "net 192.168.105.0/24", "dst net 10.0.0.0/8", "net fd00::/8", "ether host 52:54:00:12:34:56", "ether dst host ff:ff:ff:ff:ff:ff",
	}
	for _, a := range kinds {
		for _, b := range kinds {
			for _, text := range []string{a + " or " + b, a + " and " + b} {
				if !simple(strings.Fields(text)) {
					continue
				}
				if _, err := Compile(t.Context(), text, theirs); err == nil { // else nothing is both
					compare(t, all, text, theirs)
				}
			}
		}
	}
}

func TestCompileLimits(t *testing.T) {
	p, err := Compile(t.Context(), "  ", nil)
	require.NoError(t, err)
	assert.Empty(t, p)
	_, err = Compile(t.Context(), strings.Repeat("x", MaxLen+1), nil)
	assert.ErrorContains(t, err, "longer than")
	_, err = Compile(t.Context(), "tcp\x00", nil)
	assert.ErrorContains(t, err, "NUL")
	_, err = Compile(t.Context(), "tcp"+strings.Repeat(" or tcp", maxTerms), nil)
	assert.ErrorIs(t, err, ErrNeedsTcpdump)
}

// TestOddTcpdump: whatever stands in for tcpdump, the error says what happened.
func TestOddTcpdump(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"says nothing", "exit 1", "exit status 1"},
		{"prints nothing", "exit 0", "prints no program"},
		{"prints text", "echo hello", "prints no program"},
		{"too long", "echo 4097", "prints no program"},
		{"cut", "echo 2; echo 6 0 0 0", "no instruction 1"},
		{"more", "echo 1; echo 6 0 0 0; echo 6 0 0 0", "more than a program"},
		{"out of range", "echo 1; echo 6 0 300 0", "no instruction 0"},
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

func FuzzSimple(f *testing.F) {
	for _, list := range expressions {
		for _, text := range list {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Compile(t.Context(), text, nil)
		if err == nil && p != nil {
			accepts(t, p, make([]byte, 60))
		}
	})
}
