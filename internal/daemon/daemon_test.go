// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/usernet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	if code, ran := gateway.Main(compat.Version); ran { // of a network in this process
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// backendArgs are the options for a back end, which may keep files in dir.
type backendArgs func(t *testing.T, dir string) []string

// backends are those that daemons under test can have, by name.
var backends = map[string]backendArgs{
	"usernet": func(*testing.T, string) []string { return []string{"--backend=usernet"} },
}

// ownDaemon is a daemon in this process, for the race detector, which no client has reached yet.
func ownDaemon(t *testing.T, backend backendArgs, args ...string) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "d") // short enough for the sockets' paths
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	args = append(args, "--pidfile="+dir+"/s.pid", "--state-dir="+dir+"/state", "--allow-uid=0", dir+"/s")
	args = append(backend(t, dir+"/backend"), args...)
	cfg, code := compat.Parse(compat.New, append([]string{"socket_vmnet2"}, args...), compat.IO{
		Stdout: io.Discard, Stderr: io.Discard, LookupEnv: func(string) (string, bool) { return "", false },
	})
	require.NotNil(t, cfg, code)
	return newDaemon(cfg, cfg.OpenLog(io.Discard))
}

// testFrame is one frame from a test address to all, as it is on a stream.
func testFrame(src byte, payload string) []byte {
	return frame.Append(nil, fakeguest.EthernetFrame(fakeguest.Broadcast, net.HardwareAddr{2, 0, 0, 0, 0, src}, fakeguest.TypeTest, []byte(payload)))
}

// early is a daemon whose SOCKET was given and which serves already. Its network opens when gate is closed.
func early(ctx context.Context, t *testing.T, open func() (network.Network, error)) (d *daemon, gate chan struct{}, ended chan error) {
	t.Helper()
	d, gate, ended = ownDaemon(t, backends["usernet"], "--runtime-dir=none"), make(chan struct{}), make(chan error, 1)
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: d.cfg.SocketPath, Net: "unix"})
	require.NoError(t, err)
	ln.SetUnlinkOnClose(false)
	d.given = inherit.Given{Names: []string{inherit.Stream}}
	d.listeners[inherit.Stream] = ln
	d.open = func(ctx context.Context, _ opening) (network.Network, error) {
		select {
		case <-gate:
			return open()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	require.NoError(t, d.bringUp(ctx, nil, &manifest{}))
	go func() { ended <- d.run(ctx, nil, &detached{}, d.ready) }()
	return d, gate, ended
}

// dial is a bare client of d's.
func dial(t *testing.T, d *daemon) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", d.cfg.SocketPath)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestClientsBeforeTheNetwork: they are accepted and read at once, what they send is held, and it is not told that the daemon is
// ready.
func TestClientsBeforeTheNetwork(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d, gate, ended := early(ctx, t, func() (network.Network, error) {
		return usernet.New(usernet.Options{Config: gateway.Config{Mode: network.ModeShared}, Start: gateway.Program{Path: os.Args[0], UID: -1, GID: -1}.Start})
	})
	a, guest := dial(t, d), vnettest.Dial(t, d.cfg.SocketPath, fakeguest.Options{})
	var asking sync.WaitGroup
	asking.Go(func() {
		_, err := guest.Configure() // asks once, and waits
		assert.NoError(t, err)
	})
	big := bytes.Repeat(testFrame(1, strings.Repeat("x", 1400)), 3000) // more than a socket holds: the daemon reads it
	_, err := a.Write(big)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		clients, totals := d.server.Census()
		return len(clients) == 2 && totals.Link.ToNetBytes > uint64(len(big))*9/10
	}, patience, time.Millisecond)
	assert.NoFileExists(t, d.cfg.Pidfile)
	assert.Zero(t, d.networkInfo())
	close(gate)
	asking.Wait()
	assert.Equal(t, "usernet", d.networkInfo().Backend)
	require.Eventually(t, func() bool { _, err := os.Stat(d.cfg.Pidfile); return err == nil }, patience, time.Millisecond)
	_, err = vnettest.Dial(t, d.cfg.SocketPath, fakeguest.Options{}).Configure()
	require.NoError(t, err, "served")
	cancel()
	require.NoError(t, <-ended)
	assert.NoFileExists(t, d.cfg.Pidfile)
	assert.Positive(t, d.describe().Totals.ToNet.Drops["drop_starting"], "what is held is bounded")
}

// TestStartThatEnds: a network that does not start ends the daemon with the network's error; a signal in the middle of the start is
// no error. Clients that wait are let go in order.
func TestStartThatEnds(t *testing.T) {
	cause := errors.New("no network today")
	for name, want := range map[string]error{"no network": cause, "a signal": nil} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			d, gate, ended := early(ctx, t, func() (network.Network, error) { return nil, cause })
			a := dial(t, d)
			_, err := a.Write(testFrame(1, "hello"))
			require.NoError(t, err)
			require.Eventually(t, func() bool { return d.server.Clients() == 1 }, patience, time.Millisecond)
			if want != nil {
				close(gate)
			} else {
				cancel()
			}
			require.ErrorIs(t, <-ended, want)
			_, err = io.Copy(io.Discard, a)
			assert.NoError(t, err)
			assert.NoFileExists(t, d.cfg.Pidfile)
			assert.FileExists(t, d.cfg.SocketPath)
		})
	}
}

// TestDescribeNetwork: before the network has started the command line tells what it is to be, and a failure is told.
func TestDescribeNetwork(t *testing.T) {
	d := ownDaemon(t, backends["usernet"])
	n := d.describeNetwork(nil)
	assert.Equal(t, status.NetworkStarting, n.State)
	assert.Equal(t, "usernet", n.Backend)
	assert.Equal(t, "shared", n.Mode)
	hold := make(chan struct{})
	d.network.Store(startLazy(t.Context(), state.Open(state.Options{}), func(context.Context) (network.Network, error) {
		<-hold
		return nil, errors.New("sharing service busy")
	}))
	assert.Equal(t, status.NetworkStarting, d.describeNetwork(nil).State)
	close(hold)
	require.Error(t, d.network.Load().Wait(t.Context()))
	n = d.describeNetwork(nil)
	assert.Equal(t, status.NetworkFailed, n.State)
	assert.Equal(t, "sharing service busy", n.Error)
	assert.Nil(t, n.Vmnet)
	assert.Nil(t, n.Usernet)
}

// TestDescribeAtAnyTime: while the network starts, while clients come and go, while everything stands still for an upgrade that is
// then given up, and while the daemon stops.
func TestDescribeAtAnyTime(t *testing.T) {
	for name, backend := range backends {
		t.Run(name, func(t *testing.T) { describeAtAnyTime(t, ownDaemon(t, backend)) })
	}
}

func describeAtAnyTime(t *testing.T, d *daemon) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.NoError(t, d.start(ctx, &detached{}))
	var asking, coming, running sync.WaitGroup
	running.Go(func() { assert.NoError(t, d.run(ctx, nil, &detached{}, d.ready)) })
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
	first := dial(t, d)
	require.Eventually(t, func() bool { return d.describe().Totals.Connects == 1 }, patience, time.Millisecond, "not accepted")
	require.NoError(t, first.Close())
	for i := range byte(3) {
		coming.Go(func() {
			for range 10 {
				c := dial(t, d)
				_, _ = c.Write(testFrame(i, "hello"))
				time.Sleep(10 * time.Millisecond)
				_ = c.Close()
			}
		})
	}
	for range 3 {
		d.changing.Lock()
		v, err := d.detach(ctx, false)
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
	close(stop)
	asking.Wait()
	assert.Empty(t, d.describe().Clients)
	assert.Equal(t, uint64(all), d.describe().Totals.Connects)
}

// TestDatagramClientsAtTheStart: one of the last process is served before it speaks, and the log names one that has to be started again.
// One that has connected while the daemon started is not taken for either.
func TestDatagramClientsAtTheStart(t *testing.T) {
	d := ownDaemon(t, backends["usernet"])
	var log vnettest.Log
	d.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	dir := d.cfg.SocketPath + ".d/dgram"
	require.NoError(t, os.MkdirAll(dir, 0o700))
	client := func(name, to string) {
		var remote *net.UnixAddr
		if to != "" {
			remote = &net.UnixAddr{Name: dir + "/" + to, Net: "unixgram"}
		}
		c, err := net.DialUnix("unixgram", &net.UnixAddr{Name: dir + "/" + name, Net: "unixgram"}, remote)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
	}
	client("silent", "")
	client("gone", "")
	client("lost", "gone")
	require.NoError(t, os.Remove(dir+"/gone"))
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, d.start(ctx, &detached{}))
	client("new", "sock")
	ended := make(chan error)
	go func() { ended <- d.run(ctx, nil, &detached{}, d.ready) }()
	lost := "level=WARN msg=\"a datagram client of the last process has no network\" path=" + dir + "/lost"
	if runtime.GOOS != "linux" { // clients take datagrams from any socket there
		lost = ""
	}
	require.Eventually(t, func() bool {
		clients, _ := d.server.Census()
		return slices.ContainsFunc(clients, func(i perclient.Info) bool { return i.Path == dir+"/silent" }) && strings.Contains(log.String(), lost)
	}, patience, time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	assert.NotContains(t, log.String(), dir+"/new")
}

// TestRefusal is what an upgrade that did not come about is answered with.
func TestRefusal(t *testing.T) {
	_, absent := handover.Find("/nowhere")
	stopped, stop := context.WithCancel(t.Context())
	stop()
	broken := errors.New("it is broken")
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		want control.Error
	}{
		{"the program", t.Context(), absent, control.Error{Status: 422, Code: "unusable", Text: absent.Error()}},
		{"a step", t.Context(), broken, control.Error{Status: 500, Code: "failed", Text: "the upgrade failed, and the daemon goes on as it was: it is broken"}},
		{"a signal at the exec", t.Context(), handover.ErrStopping, control.Error{Status: 503, Code: "stopping", Text: "the daemon is being stopped"}},
		{"stopped before", stopped, broken, control.Error{Status: 503, Code: "stopping", Text: "the daemon is being stopped"}},
		{"the program, of a daemon that stops", stopped, absent, control.Error{Status: 422, Code: "unusable", Text: absent.Error()}},
	} {
		assert.Equal(t, &c.want, refusal(c.ctx, c.err), c.name)
	}
}

// TestClientThatDoesNotFit: what was not handed over for a client costs that client, and a listener's ends the start.
func TestClientThatDoesNotFit(t *testing.T) {
	d := ownDaemon(t, backends["usernet"])
	m := &manifest{detached: detached{Clients: []perclient.Detached{{ID: 7, Link: link.State{Socket: link.Descriptor{FD: 99}}}}}}
	require.NoError(t, d.take(&handover.In{}, m))
	assert.Empty(t, m.Clients)
	m.Listeners = map[string]int{inherit.Stream: 98}
	require.ErrorContains(t, d.take(&handover.In{}, m), "take over the socket stream: take descriptor 98 over")
}

// TestOneUpgrade: another one is refused until the one that is under way is answered, by the image after, too.
func TestOneUpgrade(t *testing.T) {
	d := ownDaemon(t, backends["usernet"], "--runtime-dir=none")
	d.path = "/nowhere"
	answer := func() string {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		require.NoError(t, err)
		var ends [2]net.Conn
		for i, fd := range fds {
			f := os.NewFile(uintptr(fd), "end")
			ends[i], err = net.FileConn(f)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
		defer ends[1].Close()
		d.upgrade(t.Context(), ends[0].(*net.UnixConn), false)
		b, err := io.ReadAll(ends[1])
		require.NoError(t, err)
		return string(b)
	}
	d.upgrading.Lock()
	assert.Contains(t, answer(), `{"error":{"code":"busy","text":"an upgrade is under way: wait for its end"}}`)
	d.upgrading.Unlock()
	for range 2 {
		assert.Contains(t, answer(), "the new program /nowhere is not run")
	}
}

// TestDescribeClient: a capture calls a client as clients does.
func TestDescribeClient(t *testing.T) {
	for want, i := range map[string]perclient.Info{
		"client 6":     {},
		"client 6 vm2": {Watch: watch.Snapshot{Hostname: "vm2"}},
		"client 6 own": {Name: "own", Watch: watch.Snapshot{Hostname: "vm2"}},
	} {
		assert.Equal(t, want, describeClient(6, i).Name)
	}
}
