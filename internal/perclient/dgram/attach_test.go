// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// A detachedClient is what its session would keep.
type detachedClient struct {
	Path string
	UID  uint32
	Link link.State
}

// detach halts the Server and detaches its clients.
func (l *lab) detach() (list []detachedClient) {
	l.t.Helper()
	l.Halt()
	l.mu.Lock()
	defer l.mu.Unlock()
	for path, s := range l.sessions {
		s.link.Interrupt()
		if l.noRun {
			s.run()
		}
		if err := s.waitEnd(l.t); !errors.Is(err, link.ErrDetached) || s.link.Gone() {
			_ = s.link.Close()
			continue
		}
		list = append(list, detachedClient{path, s.uid, s.link.Detach()})
		delete(l.sessions, path)
	}
	return list
}

// next is the lab that attaches list again: l itself, or that of the next image, in which case l has ended without a word to anything.
func (l *lab) next(list []detachedClient, sameProcess bool) *lab {
	l.t.Helper()
	n := l
	if !sameProcess {
		var st State
		list, st = l.overTheWire(list)
		n = &lab{t: l.t, dir: l.dir, path: l.path, log: &vnettest.Log{}, sessions: map[string]*session{}}
		o := l.opts
		o.Conn, o.Log, o.Serve, o.Renew = nil, slog.New(slog.NewTextHandler(n.log, nil)), n.serve, n.renew
		var err error
		n.Server, err = Attach(o, st)
		require.NoError(l.t, err)
		n.self = -1
		l.t.Cleanup(n.stop)
	}
	n.noRun = false
	for _, c := range list {
		k, err := n.Link(c.Path, c.Link)
		require.NoError(l.t, err)
		require.NoError(l.t, n.serve(k, c.Path, c.UID))
	}
	n.Run()
	return n
}

// overTheWire is what the next image gets: descriptors in place of connections and pins. l is closed as memory is in an exec.
func (l *lab) overTheWire(list []detachedClient) (clients []detachedClient, st State) {
	l.t.Helper()
	was := struct {
		List  []detachedClient
		State State
	}{list, l.State()}
	b, err := json.Marshal(was)
	require.NoError(l.t, err)
	is := was
	is.List, is.State = nil, State{}
	require.NoError(l.t, json.Unmarshal(b, &is))
	move := func(was, is *link.Descriptor) {
		if was.IsNone() {
			return
		}
		is.FD, err = unix.FcntlInt(uintptr(was.FD), unix.F_DUPFD_CLOEXEC, 3)
		require.NoError(l.t, err)
		was.Close()
	}
	for i := range is.List {
		move(&was.List[i].Link.Socket, &is.List[i].Link.Socket)
		move(&was.List[i].Link.At.Pin, &is.List[i].Link.At.Pin)
	}
	for i := range is.State.Sockets {
		move(&was.State.Sockets[i].Socket, &is.State.Sockets[i].Socket)
	}
	l.Server.mu.Lock()
	defer l.Server.mu.Unlock()
	l.closed, l.sockets = true, nil
	return is.List, is.State
}

// upgrade is the way from one image to the next.
func (l *lab) upgrade() *lab {
	l.t.Helper()
	return l.next(l.detach(), false)
}

// hasNothingLeft checks that no descriptor is left when the test is over, in whichever image.
func hasNothingLeft(t *testing.T) {
	t.Helper()
	before := descriptors(t)
	t.Cleanup(func() {
		if !assert.Eventually(t, func() bool { return len(descriptors(t)) <= len(before) }, patience, 10*time.Millisecond, "descriptors are left") {
			t.Logf("before: %q", before)
			t.Logf("now: %q", descriptors(t))
		}
	})
}

// TestUpgrade: a client is served by the next image before it sends anything, and what it sent meanwhile is not lost.
func TestUpgrade(t *testing.T) {
	for _, connected := range []bool{false, true} {
		t.Run(fmt.Sprintf("connected=%v", connected), func(t *testing.T) {
			hasNothingLeft(t)
			l := newLab(t, nil)
			p := l.either("c", connected)
			p.send(testFrame(ethernetLen, 1), testFrame(10, 0), testFrame(ethernetLen, 2))
			s := l.session(p.path)
			s.waitFrames(t, 2)
			s.link.Deliver(batchOf(testFrame(100, 7)))
			assert.Equal(t, testFrame(100, 7), p.recv())
			before := s.link.Stats()

			list := l.detach()
			p.send(testFrame(ethernetLen, 3), testFrame(ethernetLen, 4), testFrame(ethernetLen, 5)) // wait in the socket
			require.Len(t, list, 1)
			assert.Equal(t, connected && !replyOnly, list[0].Link.Socket.IsNone())

			n := l.next(list, false)
			r := n.session(p.path)
			assert.Equal(t, s.uid, r.uid)
			assert.Equal(t, 1, n.clientCount())
			r.link.Deliver(batchOf(testFrame(200, 8)))
			assert.Equal(t, testFrame(200, 8), p.recv())
			assert.Equal(t, [][]byte{testFrame(ethernetLen, 3), testFrame(ethernetLen, 4), testFrame(ethernetLen, 5)}, r.waitFrames(t, 3))
			p.send(testFrame(60, 6))
			r.waitFrames(t, 4)
			after := r.link.Stats()
			before.ToNetFrames += 4
			before.ToNetBytes += 3*ethernetLen + 60
			before.ToClientFrames++
			before.ToClientBytes += 200
			assert.Equal(t, before, after, "counters go on")
			assert.Equal(t, 1, n.served(), "it was never a new one")
			assert.NotContains(t, n.log.String(), "level=WARN")
		})
	}
}

// TestUpgradeTowardsClients: what is queued for a client when it is detached may be lost, and is counted; nothing else is, also not
// after a failed exec.
func TestUpgradeTowardsClients(t *testing.T) {
	for _, connected := range []bool{false, true} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprintf("connected=%v,fails=%v", connected, fails), func(t *testing.T) {
				hasNothingLeft(t)
				l := newLab(t, nil)
				p, s := l.joined("c", connected)
				const frames = 8000 // more than a socket holds
				for i := range frames {
					s.link.Deliver(batchOf(testFrame(ethernetLen, i)))
				}
				list := l.detach()
				lost := list[0].Link.Stats.DropQueueFull
				assert.Positive(t, lost)
				l = l.next(list, fails)
				s = l.session(p.path)
				for seen, last := 0, -1; seen < frames-int(lost); seen++ {
					n := int(binary.BigEndian.Uint32(p.recv()[14:]))
					require.Greater(t, n, last)
					last = n
				}
				s.link.Deliver(batchOf(testFrame(ethernetLen, 9999)))
				assert.Equal(t, testFrame(ethernetLen, 9999), p.recv())
				assert.Equal(t, frames+1-lost, s.link.Stats().ToClientFrames)
				assert.Equal(t, lost, s.link.Stats().DropQueueFull)
				want := len(s.got()) + 1
				p.send(testFrame(60, 1))
				s.waitFrames(t, want)
			})
		}
	}
}

// TestUpgradeSwappedPath: what takes a client's path while the images change gets nothing that is for the client.
func TestUpgradeSwappedPath(t *testing.T) {
	for _, connected := range []bool{false, true} {
		t.Run(fmt.Sprintf("connected=%v", connected), func(t *testing.T) {
			hasNothingLeft(t)
			l := newLab(t, nil)
			p, _ := l.joined("c", connected)
			list := l.detach()
			require.NoError(t, os.Rename(p.path, p.path+".moved"))
			thief, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: p.path, Net: "unixgram"})
			require.NoError(t, err)
			defer func() { _ = thief.Close() }()
			n := l.next(list, false)
			s := n.session(p.path)
			for i := range 50 {
				s.link.Deliver(batchOf(testFrame(60, i)))
			}
			if !replyOnly || !connected { // on macOS only a reply socket still leads there
				assert.Equal(t, testFrame(60, 0), p.recv())
			}
			(&peer{UnixConn: thief, t: t}).silent(50 * time.Millisecond)
			// The sweep finds that the client cannot be reached by its name any more, as without an upgrade.
			n.sweep()
			require.ErrorIs(t, s.waitEnd(t), io.EOF)
		})
	}
}

// TestUpgradeLosesTheDead: a client that dies while the images change is forgotten as without an upgrade, and so is one that was
// dead before.
func TestUpgradeLosesTheDead(t *testing.T) {
	for _, connected := range []bool{false, true} {
		t.Run(fmt.Sprintf("connected=%v", connected), func(t *testing.T) {
			hasNothingLeft(t)
			l := newLab(t, nil)
			before, later, other := l.either("before", connected), l.either("later", connected), l.either("other", !connected)
			for _, p := range l.peers {
				p.send(testFrame(60, 1))
				l.session(p.path).waitFrames(t, 1)
			}
			kill := func(p *peer) {
				require.NoError(t, p.Close())
				require.NoError(t, os.Remove(p.path))
			}
			kill(before)
			list := l.detach()
			kill(later)
			n := l.next(list, false)
			s, dead := n.session(later.path), n.session(before.path)
			require.Eventually(t, func() bool { s.link.Deliver(batchOf(testFrame(60, 1))); return s.link.Gone() }, patience, time.Millisecond)
			n.sweep()
			require.Eventually(t, func() bool { return n.clientCount() == 1 }, patience, time.Millisecond)
			n.session(other.path).link.Deliver(batchOf(testFrame(60, 3)))
			assert.Equal(t, testFrame(60, 3), other.recv())
			for _, name := range []string{"before", "later"} { // they come back
				p := n.either(name, connected)
				p.send(testFrame(60, 9))
				n.session(p.path, s, dead).waitFrames(t, 1)
			}
		})
	}
}

// TestLinkRefuses: a client whose descriptor is missing, or leads elsewhere, costs itself only, and is one again with its next frame.
func TestLinkRefuses(t *testing.T) {
	hasNothingLeft(t)
	l := newLab(t, nil)
	p, _ := l.joined("c", false)
	list := l.detach()
	at := *list[0].Link.At
	for name, v := range map[string]link.State{
		"no file":             {},
		"no such descriptor":  {At: &link.File{Pin: link.Descriptor{FD: 12345}}},
		"a socket that is no": {At: &link.File{Via: 99}},
	} {
		_, err := l.Link(p.path, v)
		assert.Error(t, err, name)
	}
	list[0].Link.Socket.Close()
	at.Pin.Close()
	l.Run()
	p.send(testFrame(60, 2))
	assert.Equal(t, testFrame(60, 2), l.session(p.path).waitFrames(t, 1)[0])
}

// TestInterruptedBeforeRun: frames that came before Run are handed on all the same.
func TestInterruptedBeforeRun(t *testing.T) {
	hasNothingLeft(t)
	l := newLab(t, func(l *lab, _ *Options) { l.noRun = true })
	p := l.either("c", false)
	p.send(testFrame(60, 1), testFrame(ethernetLen, 2))
	s := l.session(p.path)
	require.Eventually(t, func() bool { return s.link.Stats().ToNetFrames == 2 }, patience, time.Millisecond)
	l.upgrade()
	assert.Equal(t, [][]byte{testFrame(60, 1), testFrame(ethernetLen, 2)}, s.got())
}

// TestAttachRefuses: what cannot be the shared socket is no Server.
func TestAttachRefuses(t *testing.T) {
	hasNothingLeft(t)
	_, err := Attach(Options{}, State{})
	require.ErrorContains(t, err, "take over the datagram socket: there is none")
	fd, err := unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	_, err = Attach(Options{}, State{Sockets: []socketState{{Socket: link.Descriptor{FD: fd}}}})
	require.ErrorContains(t, err, "take over the datagram socket")
}

// TestUpgradeKeepsSockets: each client stays on the socket that it has connected to, also one whose session was ended.
func TestUpgradeKeepsSockets(t *testing.T) {
	if replyOnly {
		return // all clients are answered by sockets of their own
	}
	hasNothingLeft(t)
	l := newLab(t, nil)
	join := func(name string) (*peer, *session) {
		at := l.current()
		p, s := l.joined(name, true)
		require.Eventually(t, func() bool { return l.current() != at }, patience, time.Millisecond)
		return p, s
	}
	deaf, s := join("deaf")
	for i := range 8000 {
		s.link.Deliver(batchOf(testFrame(ethernetLen, i)))
	}
	left, s := join("left")
	s.link.Shutdown(link.DrainOne)
	require.ErrorIs(t, s.waitEnd(t), link.ErrShutdown)
	n := l.upgrade()
	assert.Len(t, n.all(), 3)
	left.send(testFrame(60, 2))
	p := n.either("new", true)
	p.send(testFrame(60, 3))
	for _, p := range []*peer{left, p} {
		n.session(p.path).link.Deliver(batchOf(testFrame(ethernetLen, 1)))
		assert.Equal(t, testFrame(ethernetLen, 1), p.recv())
	}
	assert.False(t, n.session(deaf.path).link.Gone())
}

// descriptors lists those of this process.
func descriptors(t *testing.T) (list []string) {
	t.Helper()
	d, err := os.ReadDir("/dev/fd")
	require.NoError(t, err)
	for _, e := range d {
		to, _ := os.Readlink("/dev/fd/" + e.Name()) // empty on macOS
		list = append(list, e.Name()+" "+to)
	}
	return list
}
