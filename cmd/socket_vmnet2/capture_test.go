// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/capture"
)

// capture starts the command on p, and waits until it captures.
func (p *process) capture(t *testing.T, args ...string) *process {
	t.Helper()
	c := p.tryCapture(t, args...)
	require.Eventually(t, func() bool { return strings.Contains(c.stderr.String(), "capturing at ") }, patience, time.Millisecond, "%s", c.stderr)
	return c
}

func (p *process) tryCapture(t *testing.T, args ...string) *process {
	t.Helper()
	return runDaemon(t, exec.Command(filepath.Join(binaries, "socket_vmnet2"), append(append([]string{"capture"}, args...), p.sock)...), p.sock)
}

// interrupt ends it as a user does.
func (p *process) interrupt(t *testing.T) {
	t.Helper()
	code, _ := p.signal(t, os.Interrupt)
	assert.Zero(t, code, "%s", p.stderr)
}

// payloads are what the frames of a file say, by the last byte of the guest's address and the direction, such as "a1 out".
func payloads(t *testing.T, b []byte) map[string][]string {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(b), pcapgo.NgReaderOptions{})
	require.NoError(t, err)
	said := map[string][]string{}
	for {
		data, ci, opts, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			return said
		}
		require.NoError(t, err, "the file is whole")
		n, err := r.Interface(ci.InterfaceIndex)
		require.NoError(t, err)
		require.Regexp(t, `^client \d+$`, n.Name)
		mac, _, _ := strings.Cut(n.Description, ",")
		if _, err := net.ParseMAC(mac); err != nil { // what a new client sent first was written before its address was known
			mac = net.HardwareAddr(data[6:12]).String()
		}
		name := mac[max(0, len(mac)-2):] + " in"
		if opts.Flags.Direction == pcapgo.NgEpbFlagDirectionOutbound {
			name = mac[max(0, len(mac)-2):] + " out"
		}
		if binary.BigEndian.Uint16(data[12:]) == 0x88b5 {
			said[name] = append(said[name], string(data[14:]))
		}
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

func TestCaptureToFile(t *testing.T) {
	p := start(t)
	tk := p.talkers(t)
	path := filepath.Join(t.TempDir(), "a b.pcapng")
	c := p.capture(t, "-w", path)
	one := p.capture(t, "--client=02:00:00:00:00:a1", "--write=-")
	tk.check("first")
	third := p.dial(t, 0xc1) // it comes later
	third.send(0, "third")
	tk.a.receive("third")
	tk.b.receive("third")
	c.interrupt(t)
	one.interrupt(t)
	tk.check("after") // nothing of it is captured

	fi, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), fi.Mode())
	said := payloads(t, readFile(t, path))
	assert.Equal(t, []string{"first"}, said["a1 out"])
	assert.Equal(t, []string{"first"}, said["b1 out"])
	assert.Equal(t, []string{"first", "third"}, said["a1 in"])
	assert.Equal(t, []string{"first", "third"}, said["b1 in"])
	assert.Equal(t, []string{"third"}, said["c1 out"])
	assert.Empty(t, said["c1 in"])
	assert.Regexp(t, `(?m)^\d+ frames captured, 0 dropped$`, c.stderr.String())

	said = payloads(t, []byte(one.stdout.String()))
	assert.Equal(t, map[string][]string{"a1 out": {"first"}, "a1 in": {"first", "third"}}, said)
	p.says(t, "capture ended reason=\"the reader ended it\"")
}

func TestCaptureLinesCountAndFilter(t *testing.T) {
	p := start(t)
	tk := p.talkers(t)
	// Filters that need no tcpdump.
	mac := fmt.Sprintf("02:00:00:00:00:%02x", tk.a.mac)
	c := p.capture(t, "-c", "3", "-s", "20", "ether", "src", "host", mac)
	tk.check("one")
	tk.check("two")
	tk.check("three")
	c.exits(t, 0)
	lines := strings.Split(strings.TrimSpace(c.stdout.String()), "\n")
	require.Len(t, lines, 3)
	for _, l := range lines {
		assert.Regexp(t, `^\d\d:\d\d:\d\d\.\d{6} client \d+ (out|in ) `+mac+` > 02:00:00:00:00:b1 ethertype 0x88b5, length \d+$`, l)
	}
	assert.Contains(t, c.stderr.String(), "3 frames captured, 0 dropped")
}

func TestCaptureRefusesFiles(t *testing.T) {
	p := start(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(file("exists"), []byte("precious"), 0o644))
	require.NoError(t, os.Symlink(file("exists"), file("link")))
	require.NoError(t, os.Symlink(file("nowhere"), file("dangling")))
	for _, c := range []struct {
		want string
		args []string
	}{
		{"exists: choose another name, or remove it", []string{"-w", file("exists")}},
		{"is not a file", []string{"-w", file("link")}},
		{"is not a file", []string{"-w", file("dangling")}},
		{"is not a file", []string{"-w", dir}},
		{"is not a file", []string{"-w", p.sock}},
		{"No such file or directory", []string{"-w", file("no/such")}},
		{"Not a directory", []string{"-w", file("exists/x")}},
		{"the filter \"bogus\"", []string{"-w", file("new"), "bogus"}},
		{"no client 77", []string{"-w", file("new"), "--client=77"}},
	} {
		t.Run(c.want, func(t *testing.T) {
			x := p.tryCapture(t, c.args...)
			x.exits(t, 1)
			assert.Contains(t, x.stderr.String(), c.want)
			assert.Equal(t, 1, strings.Count(x.stderr.String(), "\n"), "%s", x.stderr)
		})
	}
	e, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, e, 3, "nothing was made")
	assert.Equal(t, "precious", string(readFile(t, file("exists"))))
}

// TestCaptureToAFullDisk: what there was no room for the whole of is taken away again.
func TestCaptureToAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new")
	o, err := openCapture(path, nil)
	require.NoError(t, err)
	_, err = o.w.Write([]byte("whole, cut"))
	require.NoError(t, err)
	require.ErrorIs(t, o.finish(capture.Counts{Bytes: 5}, &capture.WriteError{Err: syscall.ENOSPC}), syscall.ENOSPC)
	assert.Equal(t, "whole", string(readFile(t, path)))
}

func TestCaptureWhenTheDaemonEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		sig  syscall.Signal
		want string
	}{
		{"stop", syscall.SIGTERM, "the capture ended: the daemon stops or is upgraded"},
		{"kill", syscall.SIGKILL, "the capture ended: the daemon ended the connection"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t)
			tk := p.talkers(t)
			path := filepath.Join(t.TempDir(), "x")
			x, lines := p.capture(t, "-w", path), p.capture(t)
			tk.check("word")
			require.Eventually(t, func() bool { return bytes.Count(readFile(t, path), []byte("word")) == 4 }, patience, time.Millisecond, "live")
			p.signal(t, c.sig)
			x.exits(t, 1)
			lines.exits(t, 1)
			assert.Contains(t, x.stderr.String(), c.want)
			assert.Contains(t, lines.stderr.String(), c.want)
			assert.Contains(t, payloads(t, readFile(t, path))["a1 in"], "word")
		})
	}
}
