// SPDX-License-Identifier: Apache-2.0

package passfd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

func TestMain(m *testing.M) {
	// The runtime opens its own descriptors for waiting with the first connection.
	if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		_ = ln.Close()
	}
	goleak.VerifyTestMain(m)
}

// patience is how long something may take on a busy machine.
const patience = 30 * time.Second

var (
	testMAC  = net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56}
	testInfo = network.PortInfo{MAC: testMAC, MTU: 1500, MaxFrame: 1514, InterfaceID: "6BA7B810-9DAD-41D1-80B4-00C04FD430C8"}
	testNet  = network.Info{
		Backend: "usernet", Mode: network.ModeShared, Subnet: netip.MustParsePrefix("192.168.105.0/24"),
		Gateway: netip.MustParseAddr("192.168.105.1"), DHCPStart: netip.MustParseAddr("192.168.105.2"),
		DHCPEnd: netip.MustParseAddr("192.168.105.254"), MTU: 1500, MaxFrame: 1514,
	}
)

// A mirror is a network whose ports send back what they get.
type mirror struct {
	start func(ctx context.Context) error // of a port; nil: it starts at once

	mu    sync.Mutex
	ports map[*mirrorPort]struct{}
}

type mirrorPort struct {
	net  *mirror
	sink frame.Sink
	info network.PortInfo
}

func (n *mirror) Attach(ctx context.Context, _ network.PortOptions, toClient frame.Sink) (network.Port, error) {
	if n.start != nil {
		if err := n.start(ctx); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := &mirrorPort{n, toClient, testInfo}
	n.ports[p] = struct{}{}
	return p, nil
}

func (n *mirror) Info() network.Info { return testNet }
func (n *mirror) Close() error       { return nil }

// toAll sends a frame to all clients.
func (n *mirror) toAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.ports {
		p.sink.Deliver(frame.NewBatch(frame.Append(nil, ethernet(60)), 1))
	}
}

func (p *mirrorPort) Send(b frame.Batch)       { p.sink.Deliver(b) }
func (p *mirrorPort) Info() network.PortInfo   { return p.info }
func (p *mirrorPort) Stats() network.PortStats { return network.PortStats{} }
func (p *mirrorPort) MACs() []network.MAC      { return nil }
func (p *mirrorPort) Done() <-chan struct{}    { return nil }
func (p *mirrorPort) Err() error               { return nil }

func (p *mirrorPort) Close() error {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	delete(p.net.ports, p)
	return nil
}

// only waits until there is one client, and returns what is known of it.
func (r *rig) only(t *testing.T) perclient.Info {
	t.Helper()
	require.Eventually(t, func() bool { return r.opts.Clients.Clients() == 1 }, patience, time.Millisecond)
	return r.opts.Clients.List()[0]
}

// gone waits until there is no client, and until the log has the reason.
func (r *rig) gone(t *testing.T, reason string) {
	t.Helper()
	require.Eventually(t, func() bool { return r.opts.Clients.Clients() == 0 }, patience, time.Millisecond, "a session has not ended")
	require.Eventually(t, func() bool { return strings.Contains(r.log.String(), reason) }, patience, time.Millisecond, "%q in\n%s", reason, r.log)
}

// unheard is gone for a client whose end of a pair was closed: on macOS a look tells, elsewhere the next frame for it does.
func (r *rig) unheard(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { // the client's end may still be kept here
		r.net.toAll()
		return r.opts.Clients.Clients() == 0
	}, patience, time.Millisecond)
}

const lifelineEnded = `reason="attach connection closed"`

// A rig is a server with its two sockets on a mirror.
type rig struct {
	*Server
	net *mirror
	dir string // holds attach and adopt
	log *vnettest.Log
	now atomic.Pointer[Server] // that takes connections

	panics bool // is meant to
}

// newRig starts a server. change, if not nil, may change it before it gets a connection. At the end of the test nothing of it
// is left: no goroutine, no descriptor.
func newRig(t *testing.T, change func(*rig)) *rig {
	t.Helper()
	before := openFiles(t)
	r := &rig{net: &mirror{ports: map[*mirrorPort]struct{}{}}, log: &vnettest.Log{}}
	var err error
	r.dir, err = os.MkdirTemp("/tmp", "passing")
	require.NoError(t, err)
	log := slog.New(slog.NewTextHandler(r.log, nil))
	r.Server = NewServer(Options{
		Network: func() network.Info { return testNet },
		Clients: perclient.NewServer(perclient.Options{Network: r.net, Log: log}),
		Log:     log,
	})
	r.opts.Trust.Own = []string{filepath.Join(r.dir, "attach"), filepath.Join(r.dir, "adopt")}
	if change != nil {
		change(r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var accepting sync.WaitGroup
	r.now.Store(r.Server)
	for _, via := range []string{viaAttach, viaAdopt} {
		ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(r.dir, via), Net: "unix"})
		require.NoError(t, err)
		accepting.Go(func() {
			link.Accept(ctx, ln, func(c *net.UnixConn) { r.now.Load().Connected(via, c) }, slog.New(slog.DiscardHandler))
			_ = ln.Close()
		})
	}
	t.Cleanup(func() {
		cancel()
		r.Stop()
		accepting.Wait()
		r.opts.Clients.Stop()
		limit, end := context.WithTimeout(context.Background(), patience)
		defer end()
		r.opts.Clients.Wait(limit)
		r.Wait(limit)
		assert.NoError(t, limit.Err(), "connections are left")
		r.mu.Lock()
		assert.Zero(t, r.open, "connections")
		assert.Empty(t, r.users, "connections")
		r.mu.Unlock()
		_ = os.RemoveAll(r.dir)
		assert.Eventually(t, func() bool { return openFiles(t) <= before }, patience, 10*time.Millisecond, "descriptors are left")
		assert.Equal(t, r.panics, strings.Contains(r.log.String(), "internal error:"))
	})
	return r
}

// openFiles is how many descriptors this process has.
func openFiles(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/dev/fd")
	require.NoError(t, err)
	return len(d)
}

// dial connects to one of the rig's sockets.
func (r *rig) dial(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	var c *net.UnixConn
	var err error
	require.Eventually(t, func() bool {
		c, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(r.dir, name), Net: "unix"})
		return !errors.Is(err, unix.ECONNREFUSED) // by macOS, while 128 wait to be accepted (kern.ipc.somaxconn)
	}, patience, time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now().Add(2*patience)))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// attach attaches a client.
func (r *rig) attach(t *testing.T, q proto.Request) *proto.Attached {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	a, err := proto.Attach(ctx, r.dir, q)
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// codeOf is the code of the error that a daemon has told.
func codeOf(t *testing.T, err error) proto.Code {
	t.Helper()
	e, ok := errors.AsType[*proto.Error](err)
	require.True(t, ok, "%v", err)
	return e.Code
}

// readReply reads the answer on a connection.
func readReply(t *testing.T, c *net.UnixConn) (proto.Message, proto.Reply) {
	t.Helper()
	m, err := proto.ReadMessage(c, proto.MaxReply)
	require.NoError(t, err)
	r, err := proto.DecodeReply(m.Line)
	require.NoError(t, err)
	return m, r
}

// atEnd checks that nothing more comes on f but its end.
func atEnd(t *testing.T, f interface {
	Read([]byte) (int, error)
	SetReadDeadline(time.Time) error
},
) {
	t.Helper()
	require.NoError(t, f.SetReadDeadline(time.Now().Add(patience)))
	n, err := f.Read(make([]byte, 10))
	assert.Zero(t, n)
	require.Error(t, err)
	assert.False(t, os.IsTimeout(err), "the connection was not closed")
}

// ethernet is a frame of n bytes.
func ethernet(n int) []byte {
	b := slices.Repeat([]byte{0xee}, n)
	copy(b, testMAC)
	copy(b[6:], testMAC)
	return b
}

// until waits for what is so under the server's lock.
func (r *rig) until(t *testing.T, is func() bool) {
	t.Helper()
	require.Eventually(t, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return is() }, patience, time.Millisecond)
}

// ask connects to one of the rig's sockets and sends the begin of a request. The server may have refused already.
func (r *rig) ask(t *testing.T, name, text string) *net.UnixConn {
	t.Helper()
	c := r.dial(t, name)
	_, _ = io.WriteString(c, text)
	return c
}

// adopt hands one end of a pair over, and returns the one that the client keeps.
func (r *rig) adopt(t *testing.T, transport proto.Transport, q *proto.Request) (kept *os.File, a *proto.Adopted) {
	t.Helper()
	kept, handed := pair(t, transport)
	a, err := proto.Adopt(t.Context(), r.dir, handed, q)
	require.NoError(t, err)
	require.NoError(t, handed.Close())
	return kept, a
}

// refused reads an answer with that code, and returns its text.
func refused(t *testing.T, c *net.UnixConn, code proto.Code) string {
	t.Helper()
	_, reply := readReply(t, c)
	require.NotNil(t, reply.Error)
	assert.Equal(t, code, reply.Error.Code)
	return reply.Error.Text
}
