// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// startOwn starts a daemon from a copy of the program, which a test may replace, and returns the path of that.
func startOwn(t *testing.T, args ...string) (*process, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket_vmnet2")
	replaceProgram(t, path)
	dir := vnettest.ShortDir(t)
	c := command("socket_vmnet2", filepath.Join(dir, "s"), append([]string{"--pidfile=" + dir + "/pid"}, args...)...)
	c.Path, c.Args[0] = path, path
	p := runDaemon(t, c, filepath.Join(dir, "s"))
	p.ready(t)
	p.base(t)
	return p, path
}

// startOwnOpen is startOwn for a daemon with clients of all kinds.
func startOwnOpen(t *testing.T, args ...string) (p *process, path string) {
	t.Helper()
	p, path = startOwn(t, slices.Concat(args, []string{"--state-dir=" + stateRoot(t)}, datagramArgs)...)
	p.servesDatagrams(t)
	return p, path
}

// replaceProgram puts a copy of the program under test at path, as an installation does. No child of this process starts meanwhile: it
// would have the file open to be written, and the system refuses to run one that is ("text file busy").
func replaceProgram(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(binaries, "socket_vmnet2"))
	require.NoError(t, err)
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path+".new", b, 0o755))
	require.NoError(t, os.Rename(path+".new", path))
}

// upgrade runs the subcommand, again where the machine was too busy for the new program to answer in time.
func (p *process) upgrade(t *testing.T) (r control.Upgraded, stderr string, err error) {
	t.Helper()
	for range 5 {
		if r, stderr, err = p.upgradeOnce(t); !strings.Contains(stderr, "did not answer within") {
			break
		}
	}
	return r, stderr, err
}

func (p *process) upgradeOnce(t *testing.T) (r control.Upgraded, stderr string, err error) {
	t.Helper()
	var out, said strings.Builder
	c := exec.CommandContext(t.Context(), filepath.Join(binaries, "socket_vmnet2"), "upgrade", "--json", p.sock)
	c.Stdout, c.Stderr = &out, &said
	if err = c.Run(); err == nil {
		require.NoError(t, json.Unmarshal([]byte(out.String()), &r), out.String())
	}
	return r, said.String(), err
}

// lead keeps the sender of a flow near those that take it. The daemon loses what a client is too slow to take, which on a busy
// machine would be most of it.
type lead struct{ lost int64 }

// wait waits, but not for ever, until all but a few of the frames that were sent have come or are lost.
func (l *lead) wait(sent uint64, got *atomic.Uint64) {
	const most = 512
	for end := time.Now().Add(100 * time.Millisecond); int64(sent-got.Load())-l.lost > most; time.Sleep(500 * time.Microsecond) {
		if time.Now().After(end) {
			l.lost = int64(sent - got.Load())
		}
	}
}

var (
	loadUpgrades = flag.Int("upgrades", 4, "how many TestUpgradeUnderLoad makes; with more than 6 no frame may be lost")
	loadIdle     = flag.Int("idle", 1, "how many clients without traffic it has besides, up to 4000")
)

// TestUpgradeUnderLoad: eight clients of the stream socket, each with 1,000 frames a second to another, notice nothing of upgrades but a
// gap; the gateway's process goes on, and with it a guest's TCP connection to the outside.
func TestUpgradeUnderLoad(t *testing.T) {
	p, path := startOwn(t, gatewayFlag, "--max-clients=4096")
	pidfile := filepath.Join(filepath.Dir(p.sock), "pid")
	content, err := os.ReadFile(pidfile)
	require.NoError(t, err)
	var flows []*checkedFlow
	for range 4 {
		a, b := over(t, p.stream()), over(t, p.stream())
		introduce(t, a, b)
		flows = append(flows, newCheckedFlow(a, b), newCheckedFlow(b, a))
	}
	idle := p.dial(t, 0xe1)
	require.NoError(t, idle.SetDeadline(time.Time{}))
	_, err = idle.Write(wire(0, 0xe1, "in two pieces")[:7])
	require.NoError(t, err)
	clients := []*client{idle}
	for range *loadIdle - 1 {
		clients = append(clients, p.dial(t, 0xe2))
	}
	var out *outside
	there := len(flows) + len(clients)
	if !onSimulator() {
		out = goOutside(t, p)
		there++
	}
	p.serving(t, there) // the idle client may not even have been accepted before, and one that only looked be there still
	begin, _ := p.status(t)
	base := p.base(t)
	stop := sendAll(flows)
	var gaps []time.Duration
	for round := range *loadUpgrades {
		replaceProgram(t, path)
		gaps = append(gaps, p.upgradeBeside(t, flows, func() {
			r, stderr, err := p.upgrade(t)
			require.NoError(t, err, stderr)
			assert.Equal(t, p.Process.Pid, r.PID)
			assert.Equal(t, map[string]int{"stream": there}, r.Clients)
			if out != nil {
				out.exchange(fmt.Sprint("after upgrade ", round))
			}
		}))
	}
	stop()
	_, err = idle.Write(wire(0, 0xe1, "in two pieces")[7:])
	require.NoError(t, err, "half a frame was carried")
	for i, n := range flows {
		n.check(t, fmt.Sprint("flow ", i))
		// A kernel's bridge forgets, and clients whose neighbours' ports do not start for half a second are read without them.
		assert.True(t, onSimulator() || n.foreign.Load() == 0 || slices.Max(gaps) > time.Second/2, "frames for another client in flow %d", i)
		if *loadUpgrades > 6 {
			assert.Equal(t, n.sent.Load(), n.got.Load())
		}
	}
	slices.Sort(gaps)
	t.Logf("gap: p50 %v, max %v", gaps[len(gaps)/2], gaps[len(gaps)-1])
	assert.Less(t, gaps[0], 5*time.Second) // on a busy machine others are longer
	after, err := os.ReadFile(pidfile)
	require.NoError(t, err)
	assert.Equal(t, string(content), string(after))
	require.Eventually(t, func() bool { return p.files(t) <= base+2 }, patience, 10*time.Millisecond,
		"descriptors: %d, then %d", base, p.files(t))
	second := launch(t, "socket_vmnet2", p.sock)
	second.exits(t, 1)
	assert.Contains(t, second.stderr.String(), "bind: Address already in use", "the locks are still held")
	if end, _ := p.status(t); begin.Network.Usernet != nil {
		assert.Equal(t, begin.Network.Usernet.Gateway.PID, end.Network.Usernet.Gateway.PID)
		assert.Zero(t, end.Network.Usernet.Gateway.Restarts)
	}
	p.stop(t)
	for _, c := range clients {
		c.ended()
	}
	for i, n := range flows {
		<-n.from.Done()
		assert.ErrorIs(t, n.from.Err(), io.EOF, "flow %d ends in order", i)
	}
	assert.NoFileExists(t, pidfile)
	assert.NoFileExists(t, p.sock)
	assert.NoDirExists(t, p.sock+".d")
	assert.Equal(t, *loadUpgrades, strings.Count(p.stderr.String(), "INFO | upgraded "))
	assert.NotContains(t, p.stderr.String(), "is lost in the upgrade")
}

// TestUpgradeKeepsCounters: the metrics go on at their port, and a log level that was changed is kept.
func TestUpgradeKeepsCounters(t *testing.T) {
	p, _ := startOwn(t, "--metrics-listen=127.0.0.1:0")
	addr := p.metricsAddr(t)
	tk := p.talkers(t)
	before := p.scrape(t, addr)
	_, level, _ := call("log-level", "debug", p.sock)
	for range 5 {
		_, stderr, err := p.upgrade(t)
		require.NoError(t, err, stderr)
	}
	tk.check("still there")
	_, kept, _ := call("log-level", p.sock)
	assert.Equal(t, level, kept)
	after := p.scrape(t, addr)
	assert.InDelta(t, 5.0, metric(t, after, "socket_vmnet2_upgrades_total"), 0)
	for _, series := range []string{"socket_vmnet2_network_transmit_packets_total", "socket_vmnet2_client_connects_total", "socket_vmnet2_start_time_seconds"} {
		assert.GreaterOrEqual(t, metric(t, after, series), metric(t, before, series), series)
	}
	c, err := net.Dial("tcp", addr) // silent at the stop
	require.NoError(t, err)
	defer c.Close()
	p.stop(t)
	_, err = net.Dial("tcp", addr)
	assert.Error(t, err)
}
