// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/handoff"
	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
)

// handedOver is what a new image would find, of descriptors fds, which it takes over.
func handedOver(t testing.TB, fds []int) *handoff.In {
	t.Helper()
	b, err := json.Marshal(handoff.Manifest{Version: handoff.Version, PID: os.Getpid(), FDs: fds})
	require.NoError(t, err)
	f, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	require.NoError(t, os.Remove(f.Name()))
	_, err = f.Write(b)
	require.NoError(t, err)
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, os.Setenv("SOCKET_VMNET2_HANDOFF", strconv.Itoa(fd)))
	in, err := handoff.Inherited()
	require.NoError(t, err)
	require.NotNil(t, in)
	return in
}

// duplicated is v with descriptors of its own, as if they had stayed open over an exec, and those.
func duplicated(t testing.TB, v Saved) (d Saved, fds []int) {
	t.Helper()
	b, err := json.Marshal(v) // as the manifest has it
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &d))
	dup := func(fd *int) {
		if *fd < 0 {
			return
		}
		n, err := unix.FcntlInt(uintptr(*fd), unix.F_DUPFD_CLOEXEC, 3)
		require.NoError(t, err)
		*fd = n
		fds = append(fds, n)
	}
	for i := range d.Sockets {
		dup(&d.Sockets[i].FD)
		for k := range d.Sockets[i].Kept {
			dup(&d.Sockets[i].Kept[k].Pin)
		}
	}
	for i := range d.Clients {
		dup(&d.Clients[i].Pin)
		dup(&d.Clients[i].Reply)
	}
	return d, fds
}

// each calls do for all sessions that have not ended.
func (l *lab) each(do func(s *session)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sessions {
		select {
		case <-s.done:
		default:
			do(s)
		}
	}
}

func (s *session) send(on bool) {
	select {
	case s.stood <- on:
	case <-s.done:
	}
}

// pause has the Server and its sessions stand still.
func (l *lab) pause() {
	l.t.Helper()
	l.Pause()
	l.each(func(s *session) { s.link.(link.Pausable).Pause() })
}

// resume undoes pause.
func (l *lab) resume() {
	l.t.Helper()
	l.each(func(s *session) {
		s.link.(link.Pausable).Resume()
		if !l.noRun {
			s.send(true)
		}
	})
	l.Resume()
}

// Save is as perclient.Session.Save.
func (s *session) Save() (v perclient.Saved, ok bool) {
	if s.link.Gone() {
		return v, false
	}
	return perclient.Saved{ID: 5, Link: s.link.(link.Pausable).Save()}, true
}

// save is what another image finds, of a lab that stands.
func (l *lab) save() (Saved, *handoff.In) {
	l.t.Helper()
	v, fds := duplicated(l.t, l.Save(&handoff.Out{}))
	return v, handedOver(l.t, fds)
}

// next is the lab of the image that takes over what l has saved. l ends, as the process's memory does in an exec.
func (l *lab) next(v Saved, in *handoff.In) *lab {
	l.t.Helper()
	l.each(func(s *session) {
		if !l.noRun {
			go s.send(false)
		}
	})
	assert.NoError(l.t, l.Close())
	<-l.ran
	l.running.Wait()
	n := &lab{t: l.t, dir: l.dir, path: l.path, log: &logBuffer{}, ran: make(chan struct{}), sessions: map[string]*session{}}
	o := Options{
		Trust: l.opts.Trust, QueueSize: l.opts.QueueSize, Log: slog.New(slog.NewTextHandler(n.log, nil)), Serve: n.serve, Renew: n.renew,
		Restored: func(k link.Link, path string, uid uint32, v perclient.Saved) (Session, error) {
			assert.EqualValues(l.t, 5, v.ID)
			return n.serve(k, path, uid)
		},
	}
	var err error
	n.Server, err = Restore(o, in, v)
	require.NoError(l.t, err)
	in.CloseRest()
	n.self = -1
	go func() {
		defer close(n.ran)
		n.Run()
	}()
	l.t.Cleanup(n.stop)
	return n
}

// upgrade is the way from one image to the next.
func (l *lab) upgrade() *lab {
	l.t.Helper()
	l.pause()
	return l.next(l.save())
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
			stranger, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: l.path, Net: "unixgram"})
			require.NoError(t, err)
			_, err = stranger.Write(testFrame(60, 1))
			require.NoError(t, err)
			require.NoError(t, stranger.Close())
			p.send(testFrame(ethernetLen, 1), testFrame(10, 0), testFrame(ethernetLen, 2))
			s := l.session(p.path)
			s.waitFrames(t, 2)
			s.link.Deliver(batchOf(testFrame(100, 7)))
			assert.Equal(t, testFrame(100, 7), p.recv())
			before := s.link.Stats()

			l.pause()
			p.send(testFrame(ethernetLen, 3), testFrame(ethernetLen, 4)) // wait in the socket
			v, in := l.save()
			p.send(testFrame(ethernetLen, 5))
			require.Len(t, v.Clients, 1)
			assert.Equal(t, connected && !replyOnly, v.Clients[0].Reply < 0)

			n := l.next(v, in)
			r := n.session(p.path)
			assert.Equal(t, s.uid, r.uid)
			assert.Equal(t, 1, n.Clients())
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
			assert.Equal(t, map[Reason]uint64{Unbound: 1}, n.Dropped())
			assert.Equal(t, 1, n.served(), "it was never anybody new")
			assert.NotContains(t, n.log.String(), "level=WARN")
		})
	}
}

// TestUpgradeUnderLoad: over three upgrades nothing that clients of both kinds send is lost, doubled or reordered.
func TestUpgradeUnderLoad(t *testing.T) {
	hasNothingLeft(t)
	l := newLab(t, nil)
	sent := make([]atomic.Int64, 2)
	var loads sync.WaitGroup
	stop := make(chan struct{})
	for i := range sent {
		p := l.either("c"+strconv.Itoa(i), i == 0)
		p.send(testFrame(ethernetLen, 0))
		l.session(p.path).waitFrames(t, 1) // until it runs: before that only some frames are kept
		loads.Go(func() {
			for n := int64(1); ; n++ {
				sent[i].Store(n)
				select {
				case <-stop:
					return
				default:
					p.send(testFrame(ethernetLen, int(n))) // waits for room where the socket is full
				}
			}
		})
	}
	peers, received := l.peers, make([]int64, len(sent))
	take := func(l *lab) {
		for i, p := range peers {
			for _, f := range l.session(p.path).got() {
				require.EqualValues(t, received[i], binary.BigEndian.Uint32(f[14:]), "of %s", p.path)
				received[i]++
			}
		}
	}
	for range 3 {
		for _, p := range peers {
			l.session(p.path).waitFrames(t, 50)
		}
		l.pause()
		v, in := l.save()
		take(l)
		l = l.next(v, in)
	}
	close(stop)
	loads.Wait()
	for i, p := range peers {
		l.session(p.path).waitFrames(t, int(sent[i].Load()-received[i]))
	}
	take(l)
	for i, p := range peers {
		assert.Equal(t, sent[i].Load(), received[i], "of %s", p.path)
		assert.EqualValues(t, received[i], l.session(p.path).link.Stats().ToNetFrames)
	}
}

// TestUpgradeTowardsClients: what is queued for a client when it is saved may be lost, and is counted; nothing else is, also not
// after a failed exec.
func TestUpgradeTowardsClients(t *testing.T) {
	for _, connected := range []bool{false, true} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprintf("connected=%v,fails=%v", connected, fails), func(t *testing.T) {
				hasNothingLeft(t)
				l := newLab(t, nil)
				p := l.either("c", connected)
				p.send(testFrame(ethernetLen, 0))
				s := l.session(p.path)
				s.waitFrames(t, 1)
				const frames = 8000 // more than a socket holds
				for i := range frames {
					s.link.Deliver(batchOf(testFrame(ethernetLen, i)))
				}
				l.pause()
				v, in := l.save()
				lost := v.Clients[0].Session.Link.Stats.DropQueueFull
				assert.Positive(t, lost)
				if fails {
					in.CloseRest()
					l.resume()
				} else {
					l = l.next(v, in)
				}
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

// TestUpgradeSwappedPath: whoever takes a client's path while the images change gets nothing that is for the client.
func TestUpgradeSwappedPath(t *testing.T) {
	for _, connected := range []bool{false, true} {
		t.Run(fmt.Sprintf("connected=%v", connected), func(t *testing.T) {
			hasNothingLeft(t)
			l := newLab(t, nil)
			p, _ := l.joined("c", connected)
			l.pause()
			v, in := l.save()
			require.NoError(t, os.Rename(p.path, p.path+".moved"))
			thief, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: p.path, Net: "unixgram"})
			require.NoError(t, err)
			defer func() { _ = thief.Close() }()
			n := l.next(v, in)
			s := n.session(p.path)
			for i := range 50 {
				s.link.Deliver(batchOf(testFrame(60, i)))
			}
			if !replyOnly || !connected { // on macOS only a reply socket still leads there
				assert.Equal(t, testFrame(60, 0), p.recv())
			}
			(&peer{UnixConn: thief, t: t}).silent(50 * time.Millisecond)
			// The sweep finds that the client cannot be reached by its name any more, as without an upgrade.
			require.Error(t, n.check(n.clients[p.path]))
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
			l.pause()
			kill(before)
			v, in := l.save()
			kill(later)
			n := l.next(v, in)
			assert.Equal(t, 2, n.Clients())
			s := n.session(later.path)
			require.Eventually(t, func() bool { s.link.Deliver(batchOf(testFrame(60, 1))); return s.link.Gone() }, patience, time.Millisecond)
			n.session(other.path).link.Deliver(batchOf(testFrame(60, 3)))
			assert.Equal(t, testFrame(60, 3), other.recv())
			for _, name := range []string{"before", "later"} { // they come back
				p := n.either(name, connected)
				p.send(testFrame(60, 9))
				n.session(p.path, s).waitFrames(t, 1)
			}
		})
	}
}

// TestUpgradeWithoutADescriptor: a client whose descriptor is missing costs itself only, with one line in the log, and is one
// again with its next frame.
func TestUpgradeWithoutADescriptor(t *testing.T) {
	hasNothingLeft(t)
	l := newLab(t, nil)
	p, _ := l.joined("c", false)
	other, _ := l.joined("other", true)
	l.pause()
	v, in := l.save()
	for i := range v.Clients {
		if string(v.Clients[i].Path) == p.path {
			v.Clients[i].Reply = 12345
		}
	}
	n := l.next(v, in)
	assert.Equal(t, 1, n.Clients())
	assert.Equal(t, 1, strings.Count(n.log.String(), "level=WARN"), n.log)
	p.send(testFrame(60, 2))
	assert.Equal(t, testFrame(60, 2), n.session(p.path).waitFrames(t, 1)[0])
	n.session(other.path).link.Deliver(batchOf(testFrame(60, 3)))
	assert.Equal(t, testFrame(60, 3), other.recv())
}

// TestUpgradeOfHeldFrames: frames whose session has not begun to run go over as well.
func TestUpgradeOfHeldFrames(t *testing.T) {
	hasNothingLeft(t)
	l := newLab(t, func(l *lab, _ *Options) { l.noRun = true })
	p := l.either("c", false)
	p.send(testFrame(60, 1), testFrame(ethernetLen, 2))
	s := l.session(p.path)
	require.Eventually(t, func() bool { return s.link.Stats().ToNetFrames == 2 }, patience, time.Millisecond)
	n := l.upgrade()
	_ = s.link.Close()
	assert.Equal(t, [][]byte{testFrame(60, 1), testFrame(ethernetLen, 2)}, n.session(p.path).waitFrames(t, 2))
}

// TestPauseAndClose: a paused Server can be closed, and resumed after that.
func TestPauseAndClose(t *testing.T) {
	hasNothingLeft(t)
	l := newLab(t, nil)
	p, _ := l.joined("c", false)
	l.pause()
	l.Pause() // again
	assert.NoError(t, l.Close())
	l.Resume()
	l.each(func(s *session) { go s.send(true) })
	require.Error(t, l.session(p.path).waitEnd(t))
}

// TestRestoreRefuses: what cannot be the shared socket is no Server.
func TestRestoreRefuses(t *testing.T) {
	hasNothingLeft(t)
	_, err := Restore(Options{}, handedOver(t, nil), Saved{Sockets: []SavedSocket{{FD: 3}}})
	require.ErrorContains(t, err, "restore the datagram socket")
	fd, err := unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	in := handedOver(t, []int{fd})
	_, err = Restore(Options{}, in, Saved{Sockets: []SavedSocket{{FD: fd}}})
	require.ErrorContains(t, err, "restore the datagram socket")
	in.CloseRest()
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
		p := l.either(name, true)
		p.send(testFrame(60, 1))
		s := l.session(p.path)
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
	assert.Len(t, n.old, 2)
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
