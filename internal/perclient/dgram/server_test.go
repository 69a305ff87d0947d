// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
)

func TestBothWays(t *testing.T) {
	for _, connected := range []bool{true, false} {
		t.Run(fmt.Sprintf("connected=%t", connected), func(t *testing.T) {
			l := newLab(t, nil)
			at := l.current()
			p := l.either("c", connected)
			p.send(testFrame(60, 1), []byte(mmsg.Hello), testFrame(13, 0), make([]byte, mmsg.MaxLen+1), testFrame(ethernetLen, 2))
			s := l.session(p.path)
			assert.Equal(t, [][]byte{testFrame(60, 1), testFrame(ethernetLen, 2)}, s.waitFrames(t, 2))
			assert.EqualValues(t, os.Geteuid(), s.uid)
			s.link.Deliver(batchOf(testFrame(14, 0), testFrame(9014, 7), testFrame(mmsg.MaxLen, 8)))
			assert.Equal(t, testFrame(14, 0), p.recv())
			assert.Equal(t, testFrame(9014, 7), p.recv())
			assert.Equal(t, testFrame(mmsg.MaxLen, 8), p.recv())
			st := s.link.Stats()
			assert.Equal(t, link.Stats{
				ToNetFrames: 2, ToNetBytes: 60 + ethernetLen, DropRunt: 1, DropLong: 1, ToClientFrames: 3, ToClientBytes: 14 + 9014 + mmsg.MaxLen,
			}, st)
			assert.Equal(t, connected && !replyOnly, s.link.Fd() == at.fd, "whose socket answers")
			assert.False(t, s.link.Gone())
			assert.Equal(t, 1, l.clientCount())
		})
	}
}

// TestFirstFrames: what comes before the session has called Run is kept up to a limit, in order.
func TestFirstFrames(t *testing.T) {
	l := newLab(t, func(l *lab, _ *Options) { l.noRun = true })
	p := l.connected("c")
	const n = maxHeld/(frame.PrefixLen+ethernetLen) + 30
	for i := range n {
		p.send(testFrame(ethernetLen, i))
	}
	s := l.session(p.path)
	require.Eventually(t, func() bool { return s.link.Stats().ToNetFrames == n }, patience, time.Millisecond)
	l.running.Go(s.run)
	kept := maxHeld / (frame.PrefixLen + ethernetLen)
	got := s.waitFrames(t, kept)
	assert.Len(t, got, kept)
	assert.EqualValues(t, n-kept, s.link.Stats().DropStarting)
	assert.Empty(t, l.refused.counts(), "it is the client's loss, and counted there")
	for i, f := range got {
		require.Equal(t, testFrame(ethernetLen, i), f)
	}
	p.send(testFrame(60, n))
	assert.Equal(t, testFrame(60, n), s.waitFrames(t, kept+1)[kept], "and the rest as it comes")
}

// TestPanicEndsOne: whatever goes wrong with one client, the others are served on.
func TestPanicEndsOne(t *testing.T) {
	l := newLab(t, func(l *lab, _ *Options) {
		l.onServe = func(s *session) error {
			switch filepath.Base(s.path) {
			case "bad":
				panic("in Serve")
			case "worse":
				s.onBatch = func(frame.Batch) { panic("a bug") }
			}
			return nil
		}
	})
	good, s := l.joined("good", true)
	bad, worse := l.unconnected("bad"), l.unconnected("worse")
	for i := range 3 {
		bad.send(testFrame(60, i))
		good.send(testFrame(60, i))
	}
	l.dropped(refused, 3)
	worse.send(testFrame(60, 1))
	require.ErrorContains(t, l.session(worse.path).waitEnd(t), "a bug")
	good.send(testFrame(60, 4))
	s.waitFrames(t, 5)
	l.joined("other", false)
	assert.Contains(t, l.log.String(), "internal error")
}

func TestCloseEndsAll(t *testing.T) {
	l := newLab(t, nil)
	var all []*session
	for i := range 6 {
		_, s := l.joined(fmt.Sprint("c", i), i%2 == 0)
		for range 50 { // never read
			s.link.Deliver(batchOf(testFrame(ethernetLen, 1), testFrame(ethernetLen, 2)))
		}
		all = append(all, s)
	}
	l.Halt()
	l.Halt() // again
	require.NoError(t, l.Close())
	for _, s := range all {
		require.ErrorIs(t, s.waitEnd(t), link.ErrShutdown)
	}
	require.NoError(t, l.Close(), "again")
	l.Run() // ends at once
}

// TestVanish: a client that has gone without a word is found by the next frame for it, or by the sweep.
func TestVanish(t *testing.T) {
	for _, connected := range []bool{true, false} {
		for _, how := range []string{"frame", "sweep", "sweep, path left"} {
			t.Run(fmt.Sprintf("connected=%t/%s", connected, how), func(t *testing.T) {
				l := newLab(t, nil)
				p, s := l.joined("c", connected)
				require.NoError(t, p.Close())
				if how == "sweep" {
					require.NoError(t, os.Remove(p.path))
				}
				if how == "frame" {
					s.link.Deliver(batchOf(testFrame(60, 1)))
				} else {
					l.sweep()
				}
				require.ErrorIs(t, s.waitEnd(t), io.EOF)
				assert.Zero(t, l.clientCount())
			})
		}
	}
}

// TestSweepSparesTheLiving sweeps clients that are there.
func TestSweepSparesTheLiving(t *testing.T) {
	l := newLab(t, nil)
	for i := range 4 {
		p, s := l.joined(fmt.Sprint("c", i), i%2 == 0)
		for range 3 {
			l.sweep()
		}
		s.link.Deliver(batchOf(testFrame(60, i)))
		assert.Equal(t, testFrame(60, i), p.recv())
		p.silent(20 * time.Millisecond) // nothing but frames
	}
	assert.Equal(t, 4, l.clientCount())
}

// TestComesBack: QEMU that is started again removes its socket and binds another, and is another client.
func TestComesBack(t *testing.T) {
	for _, how := range []string{"frame", "hello", "sweep"} {
		t.Run(how, func(t *testing.T) {
			l := newLab(t, nil)
			p, s := l.joined("c", false)
			require.NoError(t, p.Close())
			q := l.unconnected("c")
			switch how {
			case "frame":
				s.link.Deliver(batchOf(testFrame(60, 1)))
				require.ErrorIs(t, s.waitEnd(t), io.EOF)
			case "sweep":
				l.sweep()
				require.ErrorIs(t, s.waitEnd(t), io.EOF)
			case "hello":
				q.send([]byte(mmsg.Hello))
				require.ErrorIs(t, s.waitEnd(t), io.EOF)
			}
			q.send([]byte(mmsg.Hello), testFrame(60, 2))
			again := l.session(q.path, s)
			assert.Equal(t, [][]byte{testFrame(60, 2)}, again.waitFrames(t, 1))
			again.link.Deliver(batchOf(testFrame(60, 3), testFrame(60, 4)))
			assert.Equal(t, testFrame(60, 3), q.recv())
			assert.Equal(t, testFrame(60, 4), q.recv())
			require.ErrorIs(t, s.waitEnd(t), io.EOF)
		})
	}
}

// TestBecomesConnected: a client that is not connected at first connects, after which a reply socket is refused.
func TestBecomesConnected(t *testing.T) {
	l := newLab(t, nil)
	p, s := l.joined("c", false)
	s.link.Deliver(batchOf(testFrame(60, 2)))
	assert.Equal(t, testFrame(60, 2), p.recv())
	at := l.current()
	connectFd(t, p.UnixConn, l.path)
	s.link.Deliver(batchOf(testFrame(60, 3), testFrame(60, 4)))
	assert.Equal(t, testFrame(60, 3), p.recv())
	assert.Equal(t, testFrame(60, 4), p.recv())
	assert.Equal(t, !replyOnly, s.link.Fd() == at.fd)
	assert.Equal(t, 1, l.served())
}

// TestReplySocketTakesNothing: nothing can be sent to a reply socket, which has no name.
func TestReplySocketTakesNothing(t *testing.T) {
	l := newLab(t, nil)
	p := l.unconnected("c")
	p.send(testFrame(60, 1))
	c, _ := l.session(p.path).link.(*client)
	r := c.pipe.reply
	require.NotNil(t, r)
	assert.Contains(t, []string{"", "@"}, r.LocalAddr().String(), "package net writes @ for no name on Linux")
	other := l.unconnected("other")
	for _, name := range []string{"", "@", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), r.fd), fmt.Sprintf("/dev/fd/%d", r.fd)} {
		_, err := other.WriteToUnix(testFrame(60, 2), &net.UnixAddr{Name: name, Net: "unixgram"})
		require.Error(t, err, "%q", name)
	}
	require.NoError(t, r.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	_, err := r.Read(make([]byte, 100))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// TestNeverReads: a client that never reads loses its own frames, no other's, and costs a bounded queue.
func TestNeverReads(t *testing.T) {
	for _, connected := range []bool{true, false} {
		t.Run(fmt.Sprintf("connected=%t", connected), func(t *testing.T) {
			l := newLab(t, func(_ *lab, o *Options) { o.QueueSize = 128 << 10 })
			at := l.current()
			deaf, d := l.joined("deaf", connected)
			if connected && !replyOnly {
				l.turned(at) // what connects before that shares the buffer that deaf fills
			}
			other, o := l.joined("other", connected)
			const frames = 5000
			for i := range frames {
				d.link.Deliver(batchOf(testFrame(ethernetLen, i)))
			}
			st := d.link.Stats()
			assert.Positive(t, st.DropQueueFull)
			assert.LessOrEqual(t, st.Queued, 128<<10)
			assert.EqualValues(t, frames, st.ToClientFrames+st.DropQueueFull)
			o.link.Deliver(batchOf(testFrame(60, 7)))
			assert.Equal(t, testFrame(60, 7), other.recv())
			for i := range 50 { // it wakes up: what was kept comes, in order
				require.Equal(t, testFrame(ethernetLen, i), deaf.recv())
			}
		})
	}
}

// TestConnectedElsewhere: a client that takes datagrams from another socket only cannot be served.
func TestConnectedElsewhere(t *testing.T) {
	l := newLab(t, nil)
	if replyOnly {
		return // such a client takes them from any
	}
	p := l.unconnected("c")
	bindAt(t, l.dir+"/elsewhere")
	connectFd(t, p.UnixConn, l.dir+"/elsewhere")
	require.NoError(t, sendAnyway(t, p, l.path))
	s := l.session(p.path)
	s.link.Deliver(batchOf(testFrame(60, 2)))
	require.ErrorIs(t, s.waitEnd(t), syscall.EPERM)
	require.NoError(t, sendAnyway(t, p, l.path))
	l.dropped(refused, 1)
	assert.Equal(t, 1, l.served(), "not again at once")
}

// sendAnyway sends from a connected socket to another one.
func sendAnyway(t *testing.T, p *peer, path string) (err error) {
	t.Helper()
	onFd(t, p.UnixConn, func(fd int) error {
		err = unix.Sendto(fd, testFrame(60, 1), 0, &unix.SockaddrUnix{Name: path})
		return nil
	})
	return err
}

// TestStrangers: what is trusted but cannot be sent to is refused with the reason.
func TestStrangers(t *testing.T) {
	l := newLab(t, nil)
	path := l.dir + "/c"
	conn := bindAt(t, path)
	require.NoError(t, os.Remove(path))
	stream, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer stream.Close()
	_, err = conn.WriteToUnix(testFrame(60, 1), &net.UnixAddr{Name: l.path, Net: "unixgram"})
	require.NoError(t, err)
	l.dropped(refused, 1)
	assert.Contains(t, l.log.String(), "must be a datagram socket")
	assert.Contains(t, l.log.String(), path)
}

// TestManyBadAddresses: the memory of refused addresses is bounded.
func TestManyBadAddresses(t *testing.T) {
	r := NewRefusals(slog.New(slog.DiscardHandler))
	for i := range 10 * maxBad {
		r.failed(fmt.Sprint("/", i), 0, errClosed, 1)
		assert.LessOrEqual(t, len(r.recent), maxBad)
	}
	last, now := []byte(fmt.Sprint("/", 10*maxBad-1)), time.Now()
	assert.True(t, r.recently(last, 0, now, 2))
	assert.False(t, r.recently(last, 0, now.Add(badFor+1), 1), "it is looked at again")
	assert.EqualValues(t, 10*maxBad+2, r.counts()[refused])
}

// TestInvitedTwice: a client that is known from an earlier process and sends, or is invited again, is one client, not two.
func TestInvitedTwice(t *testing.T) {
	l := newLab(t, func(l *lab, _ *Options) { l.noReader = true })
	p := l.unconnected("c")
	require.NoError(t, l.Invite(p.path))
	s := l.session(p.path)
	require.NoError(t, l.Invite(p.path))
	l.Run()
	p.send(testFrame(60, 1))
	s.waitFrames(t, 1)
	assert.Equal(t, 1, l.served())
	s.link.Shutdown(link.DrainOne)
	require.ErrorIs(t, s.waitEnd(t), link.ErrShutdown)
	require.NoError(t, l.Invite(p.path))
	l.session(p.path, s)
	require.ErrorContains(t, l.Invite(p.path+"2"), "cannot be found")
	if !replyOnly {
		q := l.unconnected("d")
		bindAt(t, l.dir+"/elsewhere")
		connectFd(t, q.UnixConn, l.dir+"/elsewhere")
		require.ErrorContains(t, l.Invite(q.path), "start it again")
	}
}

// TestSpeaksWhileInvited: a client whose address is looked at because it was invited is served by what it says. The invitation comes to
// nothing, and is not remembered.
func TestSpeaksWhileInvited(t *testing.T) {
	l := newLab(t, func(l *lab, _ *Options) { l.noReader = true })
	p := l.unconnected("c")
	c := newClient(l.Server, p.path, itself) // as Invite makes it
	l.coming[p.path] = c
	l.Run()
	p.send(testFrame(60, 1))
	l.session(p.path).waitFrames(t, 1)
	require.ErrorIs(t, l.admit(c, nil), errClosed)
	c.end(unix.EPERM)
	assert.Empty(t, l.refused.counts())
	assert.Empty(t, l.refused.recent)
	assert.Equal(t, 1, l.served())
}

// TestSlowLooks: file systems that do not answer hold up no client that is there, and end none; new ones have to wait for their turn.
func TestSlowLooks(t *testing.T) {
	l := newLab(t, nil)
	p, s := l.joined("c", false)
	c, _ := s.link.(*client)
	require.True(t, c.looking.CompareAndSwap(false, true)) // a look that does not end
	l.looks.Add(maxLooks)
	require.NoError(t, os.Rename(p.path, p.path+"2"))
	c.Check()
	q := l.unconnected("d")
	q.send(testFrame(60, 2))
	l.dropped(slow, 1)
	p.send(testFrame(60, 3))
	s.waitFrames(t, 2)
	l.looks.Add(-maxLooks)
	q.send(testFrame(60, 4))
	l.session(q.path).waitFrames(t, 1)
	c.looking.Store(false)
	c.Check()
	require.Error(t, s.waitEnd(t))
	l.looks.Add(1)
	began := time.Now()
	l.Halt()
	assert.GreaterOrEqual(t, time.Since(began), lookTime)
	l.looks.Add(-1)
}
