// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/bridge"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

func TestMain(m *testing.M) {
	retryDelays = []time.Duration{10 * time.Millisecond, 20 * time.Millisecond}
	goleak.VerifyTestMain(m)
}

// network is a bridge as a network.Network whose ports can be made to fail.
type fakeNetwork struct {
	*bridge.Bridge

	mu       sync.Mutex
	attached int
	ids      []string
	atOnce   int
	mostOnce int
	fail     int           // this many attempts fail
	busy     int           // this many attempts find their interface id in use
	slow     time.Duration // how long an attempt takes
	hold     chan struct{} // nil, or attempts wait until it is closed
	ports    []*port
}

type port struct {
	*bridge.Port
	panics bool
	died   chan struct{}
	closed atomic.Bool
}

func (p *port) Info() network.PortInfo { return network.PortInfo{} }
func (p *port) Done() <-chan struct{}  { return p.died }
func (p *port) Err() error             { return errors.New("interface gone") }
func (p *port) Send(b frame.Batch) {
	if p.panics && bytes.Contains(b.Bytes(), []byte("boom")) {
		time.Sleep(20 * time.Millisecond) // so that the reader gets to wait for what is sent here
		panic("boom")
	}
	p.Port.Send(b)
}

func (n *fakeNetwork) Info() network.Info { return network.Info{} }

func (n *fakeNetwork) Attach(ctx context.Context, o network.PortOptions, s frame.Sink) (network.Port, error) {
	n.mu.Lock()
	n.attached++
	n.ids = append(n.ids, o.ID)
	n.atOnce++
	n.mostOnce = max(n.mostOnce, n.atOnce)
	fail, slow, hold := n.fail > 0, n.slow, n.hold
	n.fail--
	busy := n.busy > 0
	n.busy--
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		n.atOnce--
		n.mu.Unlock()
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(slow):
	}
	if hold != nil && !fail {
		select {
		case <-ctx.Done():
		case <-hold:
		}
	}
	if busy {
		return nil, network.ErrIDInUse
	}
	if fail {
		return nil, errors.New("too many interfaces")
	}
	bp, err := n.Bridge.Attach(bridge.PortOptions{Name: o.Name, MACs: o.MACs}, s)
	if err != nil {
		return nil, err
	}
	p := &port{Port: bp, panics: true, died: make(chan struct{})}
	n.mu.Lock()
	n.ports = append(n.ports, p)
	n.mu.Unlock()
	return p, nil
}

// set makes the next attempts fail, and all of them slow.
func (n *fakeNetwork) set(fail int, slow time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail, n.slow = fail, slow
}

// block has attempts that do not fail wait until release is called.
func (n *fakeNetwork) block() (release func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	hold := make(chan struct{})
	n.hold = hold
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.hold = nil
		close(hold)
	}
}

// starting is how many attempts are under way.
func (n *fakeNetwork) starting() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.atOnce
}

// inUse has the next attempts find their interface id in use.
func (n *fakeNetwork) inUse(times int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy = times
}

// identities are the clients' identities in the order of the attempts.
func (n *fakeNetwork) identities() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.ids)
}

func (n *fakeNetwork) attempts() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.attached
}

// rig is a server on a listening socket.
type rig struct {
	*Server
	net     *fakeNetwork
	path    string
	log     *vnettest.Log
	handled atomic.Int64 // connections
}

func newRig(t testing.TB, o Options) *rig {
	t.Helper()
	return newPatientRig(t, o, startDelay)
}

// newPatientRig is newRig with another startDelay: a test that says something in time is too slow for the real one now and then.
func newPatientRig(t testing.TB, o Options, delay time.Duration) *rig {
	t.Helper()
	r := &rig{net: &fakeNetwork{Bridge: bridge.New(bridge.Options{})}, log: &vnettest.Log{}}
	o.Network = r.net
	o.Log = slog.New(slog.NewTextHandler(r.log, nil))
	r.Server = NewServer(o)
	r.startDelay = delay
	r.path = filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: r.path, Net: "unix"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		link.Accept(ctx, ln, func(c *net.UnixConn) { r.Handle(c); r.handled.Add(1) }, o.Log)
	}()
	t.Cleanup(func() {
		cancel()
		<-accepting
		_ = ln.Close()
		r.shutdown()
		_ = r.net.Close()
	})
	return r
}

func (r *rig) shutdown() {
	r.Stop()
	r.Wait(context.Background())
}

// dial connects a client, which the server has when it returns.
func (r *rig) dial(t testing.TB) net.Conn {
	t.Helper()
	before := r.handled.Load()
	c, err := net.Dial("unix", r.path)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.handled.Load() > before }, 20*time.Second, 100*time.Microsecond)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

// say sends one broadcast frame with the given payload.
func say(t testing.TB, c net.Conn, src byte, payload string) {
	t.Helper()
	f := append([]byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, src, 0x88, 0xb5}, payload...)
	_, err := c.Write(frame.Append(nil, f))
	require.NoError(t, err)
}

// hear reads one frame and returns its payload.
func hear(t testing.TB, c net.Conn) string {
	t.Helper()
	head := make([]byte, frame.PrefixLen)
	_, err := io.ReadFull(c, head)
	require.NoError(t, err)
	f := make([]byte, int(head[2])<<8|int(head[3]))
	_, err = io.ReadFull(c, f)
	require.NoError(t, err)
	return string(f[frame.MinLen:])
}

// hears reads frames until one with this payload comes.
func hears(t testing.TB, c net.Conn, payload string) {
	t.Helper()
	for hear(t, c) != payload {
	}
}

// attached waits until so many ports have been made in all: an attempt alone says nothing of that.
func (r *rig) attached(t testing.TB, n int) {
	t.Helper()
	eventually(t, func() bool { return len(r.net.all()) == n })
}

func eventually(t testing.TB, what func() bool) {
	t.Helper()
	require.Eventually(t, what, 20*time.Second, 2*time.Millisecond)
}

// knock connects to a socket and leaves. A queue of connections that is full makes a client wait on Linux, and is ECONNREFUSED on
// macOS.
func knock(t *testing.T, path string) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		c, err := net.Dial("unix", path)
		if runtime.GOOS == "darwin" && errors.Is(err, syscall.ECONNREFUSED) && time.Now().Before(until) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, c.Close())
		return
	}
}

func TestProbesCostNothing(t *testing.T) {
	r := newRig(t, Options{})
	before := countFiles(t)
	for range 1000 {
		knock(t, r.path)
	}
	eventually(t, func() bool { return r.Clients() == 0 })
	// A probe that is not closed within 100 ms, on a machine that is very busy, is none.
	assert.Less(t, r.net.attempts(), 20, "ports were started")
	eventually(t, func() bool { return countFiles(t) <= before }) // the last ones may still have been in the backlog
}

func countFiles(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/dev/fd")
	require.NoError(t, err)
	return len(d)
}

func TestFramesWaitForThePort(t *testing.T) {
	r := newRig(t, Options{})
	b := r.dial(t)
	r.attached(t, 1)
	release := r.net.block()
	a := r.dial(t)
	for i, s := range []string{"1", "2", "3"} {
		say(t, a, 1, s)
		eventually(t, func() bool { return r.held() == i+1 })
	}
	release()
	for _, s := range []string{"1", "2", "3"} {
		assert.Equal(t, s, hear(t, b))
	}
}

// TestLastWords: what a client sends right before it leaves is on the network although its port was only starting. None is
// waited for for long, and what is not sent then is counted.
func TestLastWords(t *testing.T) {
	r := newRig(t, Options{})
	b := r.dial(t)
	r.attached(t, 1)
	r.net.set(0, 50*time.Millisecond)
	for _, s := range []string{"1", "2", "3"} {
		a := r.dial(t)
		say(t, a, 1, s)
		require.NoError(t, a.Close())
		assert.Equal(t, s, hear(t, b))
	}
	eventually(t, func() bool { return r.Clients() == 1 })
	_, so := r.Census()
	assert.Zero(t, so.DropHeld)

	r.net.set(0, time.Hour)
	crowd := 64
	for range crowd {
		a := r.dial(t)
		say(t, a, 1, "lost")
		require.NoError(t, a.Close())
	}
	eventually(t, func() bool {
		_, so = r.Census()
		return so.DropHeld == uint64(crowd) && r.Clients() == 1
	})
}

// held is how many frames wait for ports.
func (r *rig) held() (n int) {
	for _, c := range r.Sessions() {
		c.mu.Lock()
		n += c.heldN
		c.mu.Unlock()
	}
	return n
}

func TestWaitingFramesAreBounded(t *testing.T) {
	r := newRig(t, Options{})
	r.net.set(0, time.Hour)
	a := r.dial(t)
	big := string(make([]byte, 60_000))
	for range 10 {
		say(t, a, 1, big)
	}
	eventually(t, func() bool {
		for _, c := range r.Sessions() {
			c.mu.Lock()
			defer c.mu.Unlock()
			assert.LessOrEqual(t, len(c.held), maxHeld)
			return c.heldN == 4 && c.dropHeld.Load() == 6
		}
		return false
	})
}

func TestStartsAreLimited(t *testing.T) {
	r := newRig(t, Options{})
	release := r.net.block()
	for i := range 3 * maxStarts {
		say(t, r.dial(t), byte(i+1), "hello")
	}
	eventually(t, func() bool { return r.held() == 3*maxStarts && r.net.starting() == maxStarts })
	time.Sleep(20 * time.Millisecond) // for starts that do not keep to it
	release()
	r.attached(t, 3*maxStarts)
	assert.Equal(t, maxStarts, r.net.mostOnce)
}

// TestPanicEndsItsSessionOnly, whatever kind of socket its client has.
func TestPanicEndsItsSessionOnly(t *testing.T) {
	r := newRig(t, Options{})
	a, b, c := r.dial(t), r.dial(t), r.dial(t)
	daemon, d := unixPair(t, unix.SOCK_DGRAM)
	l, err := link.AttachDatagram(link.DatagramOptions{}, link.State{Socket: link.Holding(daemon)})
	require.NoError(t, err)
	x, err := r.Serve(l, Client{Start: true})
	require.NoError(t, err)
	r.attached(t, 4)
	say(t, a, 1, "boom")
	_, err = a.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
	_, err = d.Write([]byte("a datagram with a boom in it"))
	require.NoError(t, err)
	<-x.Done()
	say(t, b, 2, "alive")
	assert.Equal(t, "alive", hear(t, c))
	eventually(t, func() bool { return r.Clients() == 2 })
}

func TestTooManyClientsAreTurnedAway(t *testing.T) {
	r := newRig(t, Options{MaxClients: 2})
	a, b := r.dial(t), r.dial(t)
	r.attached(t, 2)
	for range 3 {
		c := r.dial(t)
		_, _ = c.Write([]byte("whatever"))
		_, err := c.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF)
	}
	say(t, a, 1, "alive")
	assert.Equal(t, "alive", hear(t, b))
	require.NoError(t, b.Close())
	eventually(t, func() bool { return r.Clients() == 1 })
	d := r.dial(t)
	r.attached(t, 3)
	say(t, a, 1, "welcome")
	assert.Equal(t, "welcome", hear(t, d))
}

func TestClosedNetworkEndsClients(t *testing.T) {
	r := newRig(t, Options{})
	a := r.dial(t)
	require.NoError(t, r.net.Close())
	say(t, a, 1, "hello")
	_, err := a.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
}
