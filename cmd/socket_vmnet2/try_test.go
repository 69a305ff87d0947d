// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// try runs the subcommand and does not wait for it.
func try(t *testing.T, args ...string) *process {
	t.Helper()
	if runtime.GOOS == "darwin" {
		args = append([]string{"--backend=usernet"}, args...)
	}
	return runDaemon(t, exec.Command(filepath.Join(binaries, "socket_vmnet2"), append([]string{"try"}, args...)...), "")
}

// triedOut waits until p, which was started with --json, tells that it is ready.
func (p *process) triedOut(t *testing.T) (v tryReady) {
	t.Helper()
	var line string
	require.Eventually(t, func() (ok bool) {
		line, _, ok = strings.Cut(p.stdout.String(), "\n")
		return ok || !p.alive()
	}, patience, 5*time.Millisecond, "%s", p.stderr)
	require.NoError(t, json.Unmarshal([]byte(line), &v), "%s\n%s", line, p.stderr)
	p.sock = v.Socket
	return v
}

func TestTryGuest(t *testing.T) {
	p := try(t, "--json")
	v := p.triedOut(t)
	assert.Equal(t, p.Process.Pid, v.PID)
	assert.Equal(t, "usernet", v.Backend)
	assert.Equal(t, "shared", v.Mode)
	dir := filepath.Dir(v.Socket)
	assert.Regexp(t, `^/tmp/socket_vmnet2-try-\d+$`, dir)
	assert.Equal(t, v.Socket+".d/dgram/sock", v.Dgram)
	info, err := os.Lstat(v.Dgram)
	require.NoError(t, err)
	assert.Equal(t, os.ModeSocket, info.Mode().Type())

	subnet := netip.MustParsePrefix(v.Subnet)
	assert.Equal(t, 24, subnet.Bits())
	assert.Equal(t, subnet.Addr().Next().String(), v.Gateway)
	table, err := freenet.System()
	require.NoError(t, err)
	assert.Empty(t, table.Overlaps(subnet))

	g, err := fakeguest.Dial(v.Socket, fakeguest.Options{Name: "trial", Timeout: patience})
	require.NoError(t, err)
	lease, err := g.Configure()
	require.NoError(t, err)
	assert.True(t, subnet.Contains(lease.Addr.Addr()), lease.Addr.String())
	_, err = g.Ping(netip.MustParseAddr(v.Gateway), 3)
	require.NoError(t, err)
	g.Close()
	for _, event := range []string{"client connected", "client address", "client gone"} {
		p.says(t, event)
	}
	_, out, _ := call("status")
	assert.Contains(t, out, v.Socket, "found among this machine's daemons")
	_, _, out = call("upgrade", v.Socket)
	assert.Contains(t, out, "not upgraded", "and it goes on")
	p.ready(t)

	p.interrupt(t)
	assert.NoDirExists(t, dir)
}

func TestTryText(t *testing.T) {
	dir := filepath.Join(shortDir(t), "and, a comma")
	p := try(t, "--dir="+dir)
	p.shows(t, "Ctrl-C", 1)
	text := p.stdout.String()
	assert.Contains(t, text, "The network is ready: "+dir+"/sock on usernet\n")
	assert.Contains(t, text, "    networks:\n    - socket: \""+dir+"/sock\"\n")
	assert.Contains(t, text, "  undo: limactl delete --force socket-vmnet2-try\n")
	p.stop(t)
	assert.NoDirExists(t, dir)
}

// TestTryRefused: bad command lines change nothing and say what is wrong.
func TestTryRefused(t *testing.T) {
	home := shortDir(t)
	full := filepath.Join(home, "full")
	require.NoError(t, os.Mkdir(full, 0o700))
	require.NoError(t, os.WriteFile(full+"/x", nil, 0o644))
	before := listing(t, home)
	for args, want := range map[string]string{
		"--dir=":                            "--dir is empty",
		"--dir=" + full:                     "file exists",
		"--dir=" + home + "/no/where":       "no such file or directory",
		"--dir=/" + strings.Repeat("x", 95): "is too long: the path of a socket in it has ",
		"--vmnet-dhcp-end=192.168.7.9":      "--vmnet-gateway=IP is needed",
		"--vmnet-mode=bridged --vmnet-interface=eth0 --backend=usernet": "bridged mode needs macOS vmnet",
		"--socket-group=nosuchgroup":                                    `unknown group name "nosuchgroup"`,
		"--socket-user=nosuchuser":                                      `unknown user name "nosuchuser"`,
	} {
		t.Run(args, func(t *testing.T) {
			p := try(t, strings.Fields(args)...)
			p.exits(t, 1)
			assert.True(t, strings.HasPrefix(p.stderr.String(), "ERROR| "), "%s", p.stderr)
			assert.Contains(t, p.stderr.String(), want)
			assert.Empty(t, p.stdout.String())
			assert.Equal(t, before, listing(t, home))
		})
	}
}

// TestTryDocs: what is printed for scripts is in the documentation, by name.
func TestTryDocs(t *testing.T) {
	b, err := os.ReadFile("../../docs/try.md")
	require.NoError(t, err)
	doc := string(b)
	var fields map[string]any
	text := jsonString(tryReady{DHCPEnd: "x", Subnet: "x", Gateway: "x", Dgram: "x", Client: "x", Lines: []tryLine{{For: "x", What: "x", Use: "x", Undo: "x", Note: "x"}}})
	require.NoError(t, json.Unmarshal([]byte(text), &fields))
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	for name := range fields["lines"].([]any)[0].(map[string]any) {
		names = append(names, name)
	}
	for _, l := range tryLines(tryReady{Dgram: "x"}, "darwin", netip.Addr{}, nil) {
		names = append(names, l.For)
	}
	for _, name := range names {
		assert.Contains(t, doc, "`"+name+"`")
	}
	assert.Contains(t, doc, "192.168.107.0/24")
}
