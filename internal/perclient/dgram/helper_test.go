// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

func TestMain(m *testing.M) {
	// The runtime's poller has descriptors, which the first file that can be polled makes: tests count descriptors.
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	_, _ = r.Close(), w.Close()
	goleak.VerifyTestMain(m)
}

// patience is how long something may take that takes no time.
const patience = 30 * time.Second

// ethernetLen is the length of most frames here.
const ethernetLen = 1514

// testFrame is a frame of n bytes with a number in it.
func testFrame(n, number int) []byte {
	f := make([]byte, n)
	copy(f, "\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01\x88\xb5")
	if n >= 18 {
		binary.BigEndian.PutUint32(f[14:], uint32(number))
	}
	return f
}

// batchOf is frames in wire form.
func batchOf(frames ...[]byte) frame.Batch {
	var buf []byte
	for _, f := range frames {
		buf = frame.Append(buf, f)
	}
	return frame.NewBatch(buf, len(frames))
}

// A session is what serves one client in a test.
type session struct {
	link link.Link
	path string
	uid  uint32
	done chan struct{} // closed when Run has returned, and the link is closed unless it was interrupted
	err  error         // of Run

	mu      sync.Mutex
	frames  [][]byte
	onBatch func(b frame.Batch) // nil: frames are kept
}

func (s *session) Frames(b frame.Batch) {
	if s.onBatch != nil {
		s.onBatch(b)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	it := b.Iter()
	for it.Next() {
		s.frames = append(s.frames, bytes.Clone(it.Frame()))
	}
}

func (s *session) run() {
	defer close(s.done)
	defer func() {
		if r := recover(); r != nil { // the handler was given what was held
			s.err = fmt.Errorf("panic: %v", r)
			_ = s.link.Close()
		}
	}()
	if s.err = s.link.Run(s); !errors.Is(s.err, link.ErrDetached) {
		_ = s.link.Close()
	}
}

func (s *session) got() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.frames)
}

// waitFrames waits until n frames have come.
func (s *session) waitFrames(t testing.TB, n int) [][]byte {
	t.Helper()
	require.Eventually(t, func() bool { return len(s.got()) >= n }, patience, time.Millisecond)
	return s.got()
}

// waitEnd waits for the session's end.
func (s *session) waitEnd(t testing.TB) error {
	t.Helper()
	select {
	case <-s.done:
	case <-time.After(patience):
		require.Fail(t, "the session does not end")
	}
	return s.err
}

// A lab is a Server with its sessions.
type lab struct {
	*Server
	t     testing.TB
	dir   string
	path  string
	log   *vnettest.Log
	peers []*peer // that either made

	mu       sync.Mutex
	sessions map[string]*session // the latest by path
	count    int
	onServe  func(s *session) error // called before the session runs
	noRun    bool                   // the sessions do not run by themselves
	isSelf   bool                   // what this process sends is the daemon's own
	noReader bool                   // the Server does not run
	running  sync.WaitGroup
}

// newLab starts a Server at a path of its own. Sockets of root are allowed unless set says otherwise.
func newLab(t testing.TB, set func(l *lab, o *Options)) *lab {
	t.Helper()
	l := &lab{t: t, dir: vnettest.ShortDir(t), log: &vnettest.Log{}, sessions: map[string]*session{}}
	l.path = filepath.Join(l.dir, "sock")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: l.path, Net: "unixgram"})
	require.NoError(t, err)
	require.NoError(t, errors.Join(os.Chmod(l.dir, 0o777), os.Chmod(l.path, 0o777))) // for tests with other users
	o := Options{
		Conn:  conn,
		Trust: Trust{AllowUIDs: []uint32{uint32(os.Geteuid())}, Own: []string{l.path}},
		Log:   slog.New(slog.NewTextHandler(l.log, nil)),
		Serve: l.serve,
		Renew: l.renew,
	}
	if set != nil {
		set(l, &o)
	}
	l.Server, err = New(o)
	require.NoError(t, err)
	l.self = -1 // the clients are this process
	if l.isSelf {
		l.self = os.Getpid()
	}
	if !l.noReader {
		l.Run()
	}
	t.Cleanup(l.stop)
	return l
}

// renew makes another socket at the path, which has its senders told before it is there, as the daemon's has.
func (l *lab) renew() (*net.UnixConn, error) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: l.path + ".new", Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	onFd(l.t, conn, func(fd int) error { return askSenders(fd, true) })
	return conn, errors.Join(os.Chmod(l.path+".new", 0o777), os.Rename(l.path+".new", l.path))
}

// stop closes the Server and waits for everything.
func (l *lab) stop() {
	assert.NoError(l.t, l.Close())
	l.running.Wait()
}

func (l *lab) serve(k link.Link, path string, uid uint32) error {
	s := &session{link: k, path: path, uid: uid, done: make(chan struct{})}
	if l.onServe != nil {
		if err := l.onServe(s); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.sessions[path] = s
	l.count++
	l.mu.Unlock()
	if !l.noRun {
		l.running.Go(s.run)
	}
	return nil
}

// sweep looks at all clients once, as perclient does from time to time.
func (l *lab) sweep() {
	l.t.Helper()
	l.Server.mu.Lock()
	all := slices.Collect(maps.Values(l.clients))
	l.Server.mu.Unlock()
	for _, c := range all {
		c.Check()
		require.Eventually(l.t, func() bool { return !c.looking.Load() }, patience, time.Millisecond)
	}
}

// current is the socket that has the path.
func (s *Server) current() *shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur()
}

// counts are what was dropped, by reason.
func (r *Refusals) counts() map[cause]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[cause]uint64{}
	for reason, t := range r.n {
		n[reason] = t.Count
	}
	return n
}

// session waits for the session of path, other than those in not.
func (l *lab) session(path string, not ...*session) (s *session) {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		s = l.sessions[path]
		return s != nil && !slices.Contains(not, s)
	}, patience, time.Millisecond, "no session for %s", path)
	return s
}

// served is how many sessions there were.
func (l *lab) served() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// clientCount is how many clients there are.
func (s *Server) clientCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients)
}

// dropped waits until n datagrams were dropped for r.
func (l *lab) dropped(r cause, n int) {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.refused.counts()[r] >= uint64(n) }, patience, time.Millisecond,
		"dropped for %q: %v", r, l.refused.counts())
	require.EqualValues(l.t, n, l.refused.counts()[r])
}

// A peer is a client in a test.
type peer struct {
	*net.UnixConn
	t    testing.TB
	path string
	to   *net.UnixAddr // nil: connected
}

// connected makes a client as vfkit and libkrun are.
func (l *lab) connected(name string) *peer {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	conn, err := net.DialUnix("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}, &net.UnixAddr{Name: l.path, Net: "unixgram"})
	require.NoError(l.t, err)
	p := &peer{UnixConn: conn, t: l.t, path: path}
	p.enlarge()
	l.t.Cleanup(func() { _ = conn.Close() })
	return p
}

// unconnected makes a client as QEMU is.
func (l *lab) unconnected(name string) *peer {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	_ = os.Remove(path)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(l.t, err)
	l.t.Cleanup(func() { _ = conn.Close() })
	p := &peer{UnixConn: conn, t: l.t, path: path, to: &net.UnixAddr{Name: l.path, Net: "unixgram"}}
	p.enlarge()
	return p
}

// enlarge gives the socket room for the longest frame, and for fewer than what tests send to a client that does not read: macOS's own
// are 2 and 4 KiB.
func (p *peer) enlarge() {
	p.t.Helper()
	require.NoError(p.t, p.SetWriteBuffer(1<<20))
	require.NoError(p.t, p.SetReadBuffer(1<<20))
}

// either makes a client of the one kind or the other.
func (l *lab) either(name string, connected bool) *peer {
	p := l.unconnected
	if connected {
		p = l.connected
	}
	l.peers = append(l.peers, p(name))
	return l.peers[len(l.peers)-1]
}

// send sends datagrams to the shared socket. Where it has no room Linux waits, and macOS says ENOBUFS.
func (p *peer) send(datagrams ...[]byte) {
	p.t.Helper()
	for _, d := range datagrams {
		var err error
		for end := time.Now().Add(patience); ; time.Sleep(50 * time.Microsecond) {
			if p.to == nil {
				_, err = p.Write(d)
			} else {
				_, err = p.WriteToUnix(d, p.to)
			}
			if !errors.Is(err, unix.ENOBUFS) || time.Now().After(end) {
				break
			}
		}
		require.NoError(p.t, err)
	}
}

// recv receives one datagram.
func (p *peer) recv() []byte {
	p.t.Helper()
	buf := make([]byte, 1<<17)
	require.NoError(p.t, p.SetReadDeadline(time.Now().Add(patience)))
	n, err := p.Read(buf)
	require.NoError(p.t, err)
	return buf[:n]
}

// silent reports that nothing comes.
func (p *peer) silent(d time.Duration) {
	p.t.Helper()
	require.NoError(p.t, p.SetReadDeadline(time.Now().Add(d)))
	n, err := p.Read(make([]byte, 1<<17))
	require.ErrorIs(p.t, err, os.ErrDeadlineExceeded, "%d bytes", n)
}

// joined makes a client of the one kind or the other that has sent a frame.
func (l *lab) joined(name string, connected bool) (*peer, *session) {
	l.t.Helper()
	p := l.either(name, connected)
	p.send(testFrame(60, 1))
	s := l.session(p.path)
	s.waitFrames(l.t, 1)
	return p, s
}

// turned waits until the path has another socket than sh.
func (l *lab) turned(sh *shared) {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.current() != sh }, patience, time.Millisecond)
}

// onFd calls f with the descriptor of conn.
func onFd(t testing.TB, conn *net.UnixConn, f func(fd int) error) {
	t.Helper()
	rc, err := conn.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, rc.Control(func(fd uintptr) { err = f(int(fd)) }))
	require.NoError(t, err)
}

// connectFd connects a datagram socket to a path.
func connectFd(t testing.TB, conn *net.UnixConn, path string) {
	t.Helper()
	onFd(t, conn, func(fd int) error { return unix.Connect(fd, &unix.SockaddrUnix{Name: path}) })
}
