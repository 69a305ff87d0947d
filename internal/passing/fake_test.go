// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
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
	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/client"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
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
	testInfo = vnet.PortInfo{MAC: testMAC, MTU: 1500, MaxFrame: 1514, InterfaceID: "6BA7B810-9DAD-41D1-80B4-00C04FD430C8"}
	testNet  = vnet.NetworkInfo{
		Backend: "usernet", Mode: vnet.ModeShared, Subnet: netip.MustParsePrefix("192.168.105.0/24"),
		Gateway: netip.MustParseAddr("192.168.105.1"), DHCPStart: netip.MustParseAddr("192.168.105.2"),
		DHCPEnd: netip.MustParseAddr("192.168.105.254"), MTU: 1500, MaxFrame: 1514,
	}
)

// fakeClients serve clients whose frames come back to them.
type fakeClients struct {
	max   int                                              // 0: any number
	serve func() error                                     // may refuse; nil: nobody
	ready func(ctx context.Context) (vnet.PortInfo, error) // nil: at once

	mu       sync.Mutex
	sessions []*fakeSession
	open     int
	running  sync.WaitGroup
}

// A fakeSession serves one link.
type fakeSession struct {
	owner  *fakeClients
	link   link.Link
	client perclient.Client
	done   chan struct{}
	stood  chan bool // true: the pause is over; false: the session is another server's
	stands atomic.Bool

	restored *perclient.Saved // not nil: by Restore

	mu     sync.Mutex
	reason error // of End
	err    error // of Run
}

func (f *fakeClients) Serve(l link.Link, c perclient.Client) (session, error) {
	if f.serve != nil {
		if err := f.serve(); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.max > 0 && f.open >= f.max {
		return nil, perclient.ErrFull
	}
	x := &fakeSession{owner: f, link: l, client: c, done: make(chan struct{}), stood: make(chan bool)}
	f.start(x)
	return x, nil
}

// start runs x. The caller holds mu.
func (f *fakeClients) start(x *fakeSession) {
	l, c := x.link, x.client
	f.open++
	f.sessions = append(f.sessions, x)
	f.running.Go(func() {
		defer func() {
			close(x.done)
			c.Ended()
		}()
		var err error
		for {
			if err = l.Run(x); !errors.Is(err, link.ErrPaused) {
				break
			}
			x.stands.Store(true)
			if !<-x.stood { // another image has it now
				f.mu.Lock()
				f.open--
				f.mu.Unlock()
				return
			}
		}
		_ = l.Close()
		x.mu.Lock()
		x.err = err
		x.mu.Unlock()
		f.mu.Lock()
		f.open--
		f.mu.Unlock()
	})
}

// Restore is Serve for a client that another server had.
func (f *fakeClients) Restore(l link.Link, c perclient.Client, v perclient.Saved) (session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := &fakeSession{owner: f, link: l, client: c, restored: &v, done: make(chan struct{}), stood: make(chan bool)}
	f.start(x)
	return x, nil
}

// pause has every session stand still, resume go on, and abandon leave it to another server.
func (f *fakeClients) pause()   { f.each(func(x *fakeSession) { x.link.(link.Pausable).Pause() }) }
func (f *fakeClients) abandon() { f.each(func(x *fakeSession) { x.send(false) }) }

func (f *fakeClients) resume() {
	f.each(func(x *fakeSession) {
		x.stands.Store(false)
		x.link.(link.Pausable).Resume()
		x.send(true)
	})
}

func (x *fakeSession) send(on bool) {
	select {
	case x.stood <- on:
	case <-x.done:
	}
}

// each calls do for all sessions there were.
func (f *fakeClients) each(do func(*fakeSession)) {
	f.mu.Lock()
	list := slices.Clone(f.sessions)
	f.mu.Unlock()
	for _, x := range list {
		do(x)
	}
}

// Save is as perclient's.
func (x *fakeSession) Save() (v perclient.Saved, ok bool) {
	select {
	case <-x.done:
		return v, false
	default:
	}
	l := x.link.(link.Pausable)
	if l.Gone() {
		return v, false
	}
	return perclient.Saved{ID: 7, Client: perclient.SavedClient{Name: x.client.Name}, Link: l.Save()}, true
}

// Frames sends what came back.
func (x *fakeSession) Frames(b frame.Batch) { x.link.Deliver(b) }

func (x *fakeSession) Ready(ctx context.Context) (vnet.PortInfo, error) {
	if x.owner.ready != nil {
		return x.owner.ready(ctx)
	}
	return testInfo, nil
}

func (x *fakeSession) End(reason error) {
	x.mu.Lock()
	if x.reason == nil {
		x.reason = reason
	}
	x.mu.Unlock()
	x.link.Shutdown(link.DrainSchedule{Hard: time.Millisecond})
}

func (x *fakeSession) Done() <-chan struct{} { return x.done }

// ended waits for the session's end and returns why End was called, if it was.
func (x *fakeSession) ended(t *testing.T) error {
	t.Helper()
	select {
	case <-x.done:
	case <-time.After(patience):
		require.Fail(t, "the session has not ended")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.reason
}

// unheard is ended for a client whose end of a pair was closed: on macOS a look tells, elsewhere the next frame for it does.
func (x *fakeSession) unheard(t *testing.T) error {
	t.Helper()
	if runtime.GOOS != "darwin" {
		require.Eventually(t, func() bool { // the client's end may still be kept here
			x.link.Deliver(frame.NewBatch(frame.Append(nil, make([]byte, 60)), 1))
			return x.link.Gone()
		}, patience, time.Millisecond)
	}
	return x.ended(t)
}

// session waits for the n-th session.
func (f *fakeClients) session(t *testing.T, n int) *fakeSession {
	t.Helper()
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.sessions) > n
	}, patience, time.Millisecond, "no session %d", n)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sessions[n]
}

// count is how many sessions there were.
func (f *fakeClients) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sessions)
}

// stop ends all sessions.
func (f *fakeClients) stop() {
	f.mu.Lock()
	list := slices.Clone(f.sessions)
	f.mu.Unlock()
	for _, x := range list {
		x.End(errStopped)
	}
	f.running.Wait()
}

// logLines collects what is logged.
type logLines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A rig is a server with its two sockets and fake clients.
type rig struct {
	*Server
	clients *fakeClients
	dir     string // holds attach and adopt
	log     *logLines
	now     atomic.Pointer[Server] // who takes connections
}

// newRig starts a server. change, if not nil, may change it before it gets a connection. At the end of the test nothing of it
// is left: no goroutine, no descriptor.
func newRig(t *testing.T, change func(*rig)) *rig {
	t.Helper()
	before := openFiles(t)
	r := &rig{clients: &fakeClients{}, log: &logLines{}}
	var err error
	r.dir, err = os.MkdirTemp("/tmp", "passing")
	require.NoError(t, err)
	r.Server = NewServer(Options{
		Network: func() vnet.NetworkInfo { return testNet },
		Log:     slog.New(slog.NewTextHandler(r.log, nil)),
	})
	r.opts.Trust.Own = []string{filepath.Join(r.dir, "attach"), filepath.Join(r.dir, "adopt")}
	r.serve = r.clients.Serve
	if change != nil {
		change(r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var accepting sync.WaitGroup
	r.now.Store(r.Server)
	for name, take := range map[string]func(*net.UnixConn){
		"attach": func(c *net.UnixConn) { r.now.Load().Attach(c) },
		"adopt":  func(c *net.UnixConn) { r.now.Load().Adopt(c) },
	} {
		ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(r.dir, name), Net: "unix"})
		require.NoError(t, err)
		accepting.Go(func() {
			link.Accept(ctx, ln, take, slog.New(slog.DiscardHandler))
			_ = ln.Close()
		})
	}
	t.Cleanup(func() {
		cancel()
		r.Stop()
		accepting.Wait()
		r.clients.stop()
		limit, end := context.WithTimeout(context.Background(), patience)
		defer end()
		r.Wait(limit)
		assert.NoError(t, limit.Err(), "connections are left")
		r.mu.Lock()
		assert.Zero(t, r.open, "connections")
		assert.Empty(t, r.users, "connections")
		r.mu.Unlock()
		_ = os.RemoveAll(r.dir)
		assert.Eventually(t, func() bool { return openFiles(t) <= before }, patience, 10*time.Millisecond, "descriptors are left")
		assert.NotContains(t, r.log.String(), "internal error:")
	})
	return r
}

// openFiles is how many descriptors this process has.
func openFiles(t *testing.T) int {
	t.Helper()
	dir := "/proc/self/fd"
	if _, err := os.Stat(dir); err != nil {
		dir = "/dev/fd"
	}
	d, err := os.ReadDir(dir)
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
func (r *rig) attach(t *testing.T, q proto.Request) *client.Attached {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	a, err := client.Attach(ctx, r.dir, q)
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
func (r *rig) adopt(t *testing.T, transport proto.Transport, q *proto.Request) (kept *os.File, a *client.Adopted) {
	t.Helper()
	kept, handed := pair(t, transport)
	a, err := client.Adopt(t.Context(), r.dir, handed, q)
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
