// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/lazynet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnettest"
)

// status is the daemon's description, and its text.
func (p *process) status(t *testing.T) (s status.Status, text []byte) {
	t.Helper()
	_, text, err := control.AskWith(t.Context(), p.sock+".d/control", http.MethodGet, "/v1/status", nil)
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

// running are clients of whom each has its port and an address.
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
	golden(t, "testdata/description.json", p.fixed(t, text))
}

// userOfTest is the name of this process's user.
func userOfTest() string {
	var n userNames
	return n.name(uint32(os.Geteuid()))
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

// golden compares text with a file, which is written anew where SOCKET_VMNET2_UPDATE is set.
func golden(t *testing.T, path, text string) {
	t.Helper()
	if os.Getenv("SOCKET_VMNET2_UPDATE") != "" {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), text)
}

// TestDescriptionOverAnUpgrade: what the daemon and its clients are and did stays.
func TestDescriptionOverAnUpgrade(t *testing.T) {
	p, path := startOwnOpen(t)
	for i, way := range []vnettest.Transport{p.stream(), p.connected(), p.unconnected(), p.attach(proto.Stream), p.adopt(proto.Datagram, true)} {
		g := plugIn(t, dialWay(t, way), fakeguest.Options{
			Name: fmt.Sprintf("vm%d", i), MAC: net.HardwareAddr{2, 0, 0, 0, 9, byte(i)}, Timeout: patience,
		})
		_, err := g.Configure()
		require.NoError(t, err)
	}
	before := p.describes(t, running(5))
	replaceProgram(t, path)
	_, stderr, err := p.upgrade(t)
	require.NoError(t, err, stderr)
	after := p.describes(t, running(5))
	assert.Equal(t, 1, after.Daemon.Upgrades)
	assert.True(t, before.Daemon.Started.Equal(after.Daemon.Started))
	assert.GreaterOrEqual(t, after.Daemon.Uptime, before.Daemon.Uptime)
	assert.Equal(t, before.Totals.Connects, after.Totals.Connects)
	assert.GreaterOrEqual(t, after.Totals.ToNet.Frames, before.Totals.ToNet.Frames)
	assert.GreaterOrEqual(t, after.Totals.ToClient.Bytes, before.Totals.ToClient.Bytes)
	for i, was := range before.Clients {
		is := after.Clients[i]
		assert.Equal(t, was.ID, is.ID)
		assert.Equal(t, was.Transport, is.Transport)
		assert.Equal(t, was.Path, is.Path)
		assert.Equal(t, was.Name, is.Name)
		assert.Equal(t, was.MAC, is.MAC)
		assert.Equal(t, was.IP, is.IP)
		assert.Equal(t, was.Hostname, is.Hostname)
		assert.Equal(t, was.Peer, is.Peer)
		assert.True(t, was.Connected.Equal(is.Connected), "%v, %v", was.Connected, is.Connected)
		assert.GreaterOrEqual(t, is.Age, was.Age)
		assert.GreaterOrEqual(t, is.ToNet.Frames, was.ToNet.Frames)
		assert.GreaterOrEqual(t, is.ToClient.Bytes, was.ToClient.Bytes)
		assert.GreaterOrEqual(t, is.DHCP.Acks, was.DHCP.Acks)
	}
}

// ownDaemon is a daemon in this process, for the race detector, which no client has reached yet.
func ownDaemon(t *testing.T) *daemon {
	t.Helper()
	sock := filepath.Join(shortDir(t), "s")
	args := append(backendArgs(sock), "--state-dir="+stateRoot(t), "--allow-uid=0", sock)
	cfg, outcome := compat.Parse(compat.New, append([]string{"socket_vmnet2"}, args...), compat.IO{
		Stdout: &output{}, Stderr: &output{}, LookupEnv: func(string) (string, bool) { return "", false },
	})
	require.NotNil(t, cfg, outcome)
	logs := cfg.OpenLog(&output{})
	return &daemon{cfg: cfg, log: logs.Logger, logs: logs, began: time.Now(), failed: make(chan error, 1)}
}

// TestDescribeNetwork: before the network has started the command line tells what it is to be, and a failure is told.
func TestDescribeNetwork(t *testing.T) {
	d := ownDaemon(t)
	n := d.describeNetwork()
	assert.Equal(t, status.NetworkStarting, n.State)
	assert.Equal(t, string(resolveBackend(d.cfg)), n.Backend)
	assert.Equal(t, "shared", n.Mode)
	hold := make(chan struct{})
	d.network.Store(lazynet.Start(t.Context(), func(context.Context) (vnet.Network, error) {
		<-hold
		return nil, errors.New("sharing service busy")
	}))
	assert.Equal(t, status.NetworkStarting, d.describeNetwork().State)
	close(hold)
	require.Error(t, d.network.Load().Wait(t.Context()))
	n = d.describeNetwork()
	assert.Equal(t, status.NetworkFailed, n.State)
	assert.Equal(t, "sharing service busy", n.Error)
	assert.Nil(t, n.Vmnet)
	assert.Nil(t, n.Usernet)
}

// TestDescribeAtAnyTime: while the network starts, while clients come and go, while everything stands still for an upgrade that is
// then given up, and while the daemon stops.
func TestDescribeAtAnyTime(t *testing.T) {
	d := ownDaemon(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.NoError(t, d.start(ctx))
	var asking, coming, running sync.WaitGroup
	running.Go(func() { assert.NoError(t, d.run(ctx)) })
	stop := make(chan struct{})
	for range 2 {
		asking.Go(func() {
			var last status.Status
			for {
				select {
				case <-stop:
					return
				default:
				}
				d.changing.Lock() // as nothing is asked while clients are detached
				now := d.describe()
				d.changing.Unlock()
				assert.GreaterOrEqual(t, now.Totals.ToNet.Frames, last.Totals.ToNet.Frames)
				assert.NotNil(t, now.Health)
				assert.NotEqual(t, status.NetworkFailed, now.Network.State)
				last = now
			}
		})
	}
	sock := d.cfg.SocketPath
	first, err := net.Dial("unix", sock)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return d.describe().Totals.Connects == 1 }, patience, time.Millisecond, "not accepted")
	require.NoError(t, first.Close())
	for i := range byte(3) {
		coming.Go(func() {
			for range 10 {
				c, err := net.Dial("unix", sock)
				if assert.NoError(t, err) {
					_, _ = c.Write(wire(0, i, "hello"))
					time.Sleep(10 * time.Millisecond)
					_ = c.Close()
				}
			}
		})
	}
	for range 3 {
		d.changing.Lock()
		v, err := d.detach(ctx)
		assert.NoError(t, err)
		d.attachAgain(ctx, v)
		d.changing.Unlock()
		assert.NoError(t, d.network.Load().Wait(ctx))
	}
	coming.Wait()
	const all = 1 + 30
	require.Eventually(t, func() bool { return d.describe().Totals.Connects == all }, patience, time.Millisecond)
	cancel()
	running.Wait()
	d.stop()
	close(stop)
	asking.Wait()
	assert.Empty(t, d.describe().Clients)
	assert.Equal(t, uint64(all), d.describe().Totals.Connects)
}
