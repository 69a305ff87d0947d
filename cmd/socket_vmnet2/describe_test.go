// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// status is the daemon's description, and its text.
func (p *process) status(t *testing.T) (s status.Status, text []byte) {
	t.Helper()
	_, text, err := control.Ask(t.Context(), p.sock+".d/control", http.MethodGet, "/v1/status", nil)
	require.NoError(t, err, p.stderr)
	require.NoError(t, json.Unmarshal(text, &s), string(text))
	return s, text
}

// describes waits until the description is as what says, and returns it.
func (p *process) describes(t *testing.T, what func(status.Status) bool) (s status.Status) {
	t.Helper()
	require.Eventually(t, func() bool {
		s, _ = p.status(t)
		return what(s)
	}, patience, 5*time.Millisecond)
	return s
}

// serving waits until the daemon has n clients: one that only looked whether it is ready may be on its way out.
func (p *process) serving(t *testing.T, n int) {
	t.Helper()
	p.describes(t, func(s status.Status) bool { return len(s.Clients) == n })
}

// running are clients of which each has its port and an address.
func running(n int) func(status.Status) bool {
	return func(s status.Status) bool {
		return len(s.Clients) == n && !slices.ContainsFunc(s.Clients, func(c status.Client) bool {
			return c.State != status.StateRunning || c.IP.String() == "invalid IP" || c.DHCP.Acks == 0
		})
	}
}

// variable is what differs from one run of TestDescription to the next, and what stands for it.
var variable = []struct{ re, with string }{
	{`"([a-z_]+)": "20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"`, `"$1": "TIME"`},
	{`"(uptime_s|age_s)": [0-9.e-]+`, `"$1": 0`},
	{`"pid": [0-9]+`, `"pid": 1`},
	{`\n *"log": "[^"]*",`, ""},
	{`"fd": [1-9][0-9]*`, `"fd": 9`},
	{`"(uid|gid)": [0-9]+`, `"$1": 0`},
	{`"user": "[^"]*"`, `"user": "USER"`},
	{`"command": "[^"]*"`, `"command": "COMMAND"`},
	{`"version": "[^"]*"`, `"version": "VERSION"`},
	{`"id": "[0-9A-Fa-f-]{36}"`, `"id": "UUID"`},
	{`"(state_file)": "[^"]*/([0-9a-f]+)(\.[a-z]+)?"`, `"$1": "STATE"`},
	{`"program": "[^"]*"`, `"program": "PROGRAM"`},
	{`/g[0-9]+-[0-9]+"`, `/GUEST"`},
	{`"mac": "(02|5a|[0-9a-f]{2}):[0-9a-f:]{14}",
(\s+)"mtu`, "\"mac\": \"INTERFACE\",\n${2}\"mtu"},
}

// TestDescription is the whole description of a daemon with a client of each kind.
func TestDescription(t *testing.T) {
	p := startOpen(t, "--pidfile="+filepath.Join(t.TempDir(), "pid"))
	for i, way := range []vnettest.Transport{p.stream(), p.connected(), p.attach(proto.Datagram)} {
		g := plugIn(t, dialWay(t, way), fakeguest.Options{Name: fmt.Sprintf("vm%d", i), MAC: net.HardwareAddr{2, 0, 0, 0, 9, byte(i)}, Timeout: patience})
		_, err := g.Configure()
		require.NoError(t, err)
	}
	s := p.describes(t, running(3))
	assert.WithinDuration(t, time.Now(), s.Now, patience)
	assert.Positive(t, s.Daemon.Uptime)
	for i, want := range []string{status.Stream, status.Unixgram, status.PassedDatagram} {
		c := s.Clients[i]
		assert.Equal(t, want, c.Transport)
		assert.Equal(t, uint32(os.Geteuid()), c.Peer.UID)
		assert.Equal(t, userOfTest(), c.Peer.User)
		assert.Equal(t, want == status.Unixgram, c.Peer.PID == 0, "of datagrams the process is not known")
		assert.Equal(t, want == status.Unixgram, c.Peer.Command == "")
		assert.Equal(t, uint64(1), c.DHCP.Discovers)
		assert.Equal(t, uint64(1), c.DHCP.Acks)
	}
	_, text := p.status(t)
	if os.Getenv("SOCKET_VMNET2_UPDATE") != "" {
		require.NoError(t, os.WriteFile("testdata/description.json", []byte(p.fixed(t, text)), 0o644))
	}
	assert.Equal(t, string(readFile(t, "testdata/description.json")), p.fixed(t, text))
}

// userOfTest is the name of this process's user.
func userOfTest() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// fixed is a description with what varies replaced.
func (p *process) fixed(t *testing.T, text []byte) string {
	t.Helper()
	var s status.Status
	require.NoError(t, json.Unmarshal(text, &s))
	b, err := json.MarshalIndent(zeroCounters(s), "", "  ")
	require.NoError(t, err)
	out := string(b)
	out = regexp.MustCompile(regexp.QuoteMeta(filepath.Dir(p.sock))).ReplaceAllString(out, "DIR")
	out = regexp.MustCompile(`"pidfile": "[^"]*"`).ReplaceAllString(out, `"pidfile": "PIDFILE"`)
	out = regexp.MustCompile(`"name": "`+regexp.QuoteMeta(userOfTest())+`"`).ReplaceAllString(out, `"name": "USER"`)
	for _, v := range variable {
		out = regexp.MustCompile(v.re).ReplaceAllString(out, v.with)
	}
	return out + "\n"
}

// zeroCounters leaves out how much was sent: guests answer ARP when they are asked, which is not always.
func zeroCounters(s status.Status) status.Status {
	zero := func(ts ...*status.Traffic) {
		for _, t := range ts {
			t.Frames, t.Bytes = 0, 0
		}
	}
	if u := s.Network.Usernet; u != nil {
		u.Gateway.PID, u.Gateway.UID, u.Gateway.User = 1, 65534, "nobody" // without root it is the daemon's user
	}
	zero(&s.Totals.ToNet, &s.Totals.ToClient)
	for i := range s.Clients {
		zero(&s.Clients[i].ToNet, &s.Clients[i].ToClient)
	}
	s.Health = []status.Problem{} // this host's networks are among it
	s.Totals.Connects = 0         // ready and servesDatagrams connect as well
	for i := range s.Clients {
		s.Clients[i].ID = uint64(i + 1)
	}
	return s
}

// TestLogs: the last lines of a log that is a file; where any other one goes.
func TestLogs(t *testing.T) {
	logs := func(p *process) (int, string, string) {
		return outcome(t, exec.Command(filepath.Join(binaries, "socket_vmnet2"), "logs", "--lines=50", p.sock))
	}
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer file.Close()
	c := command("socket_vmnet2", filepath.Join(vnettest.ShortDir(t), "s"))
	c.Stderr = file
	p := runDaemon(t, c, c.Args[len(c.Args)-1])
	p.ready(t)
	code, stdout, stderr := logs(p)
	assert.Zero(t, code, stderr)
	assert.Contains(t, stdout, "INFO | starting the embedded network")
	code, _, stderr = logs(start(t))
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, ": look there\n")
}
