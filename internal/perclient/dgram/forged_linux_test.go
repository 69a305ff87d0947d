// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// The users in these tests.
const (
	victim   = 4001
	attacker = 4002
)

// as runs f as another user, with dir as its root directory, in a thread that ends with it.
func as(t *testing.T, uid int, dir string, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is of no use any more
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_FS); err != nil {
				return fmt.Errorf("unshare: %w", err)
			}
			if err := errors.Join(unix.Chroot(dir), unix.Chdir("/")); err != nil {
				return fmt.Errorf("chroot: %w", err)
			}
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
				return fmt.Errorf("setresuid: %w", errno)
			}
			return f()
		}()
	}()
	require.NoError(t, <-done)
}

// bound makes a datagram socket at path for the thread that it runs in, and sends frames to the socket at to.
func bound(fd *int, path, to string, connected bool, frames ...[]byte) func() error {
	return func() (err error) {
		if *fd == 0 {
			if *fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
				return err
			}
			if err := unix.Bind(*fd, &unix.SockaddrUnix{Name: path}); err != nil {
				return fmt.Errorf("bind: %w", err)
			}
			if connected {
				if err := unix.Connect(*fd, &unix.SockaddrUnix{Name: to}); err != nil {
					return fmt.Errorf("connect: %w", err)
				}
			}
		}
		for _, f := range frames {
			if err := unix.Sendto(*fd, f, 0, &unix.SockaddrUnix{Name: to}); err != nil {
				return fmt.Errorf("send: %w", err)
			}
		}
		return nil
	}
}

// TestForged: a client in a root directory of its own binds a path that is another user's socket here.
func TestForged(t *testing.T) {
	vnettest.NeedRoot(t)
	for _, connected := range []bool{true, false} {
		t.Run(fmt.Sprintf("connected=%t", connected), func(t *testing.T) {
			l := newLab(t, nil)
			path := filepath.Join(l.dir, "c")
			var mine, theirs int
			defer func() { _, _ = unix.Close(mine), unix.Close(theirs) }()
			as(t, victim, "/", bound(&mine, path, l.path, connected))

			// The attacker's root directory has the daemon's socket at the same path, and no other.
			root := vnettest.ShortDir(t)
			require.NoError(t, os.MkdirAll(filepath.Join(root, l.dir), 0o777))
			require.NoError(t, os.Chmod(filepath.Join(root, l.dir), 0o777))
			require.NoError(t, os.Link(l.path, filepath.Join(root, l.path)))
			as(t, attacker, root, bound(&theirs, path, l.path, connected, testFrame(60, 1), testFrame(60, 2)))
			l.dropped(forged, 2)
			assert.Zero(t, l.served(), "no user makes a client of another one's socket")
			assert.Contains(t, l.log.String(), "sent by user 4002, the socket belongs to user 4001")

			as(t, victim, "/", bound(&mine, path, l.path, connected, testFrame(60, 3)))
			s := l.session(path)
			assert.EqualValues(t, victim, s.uid)
			s.waitFrames(t, 1)
			as(t, attacker, root, bound(&theirs, path, l.path, connected, testFrame(60, 4), testFrame(60, 5)))
			as(t, victim, "/", bound(&mine, path, l.path, connected, testFrame(60, 6)))
			assert.Equal(t, [][]byte{testFrame(60, 3), testFrame(60, 6)}, s.waitFrames(t, 2), "only its own")
			l.dropped(forged, 4)

			s.link.Deliver(batchOf(testFrame(60, 7)))
			buf := make([]byte, 100)
			n, err := unix.Read(mine, buf)
			require.NoError(t, err)
			assert.Equal(t, testFrame(60, 7), buf[:n])
			require.NoError(t, unix.SetNonblock(theirs, true))
			_, err = unix.Read(theirs, buf)
			require.ErrorIs(t, err, unix.EAGAIN, "the attacker gets nothing")
		})
	}
}

// TestPathOfAnother: a path is used again by another user; that is another client, at once.
func TestPathOfAnother(t *testing.T) {
	vnettest.NeedRoot(t)
	l := newLab(t, nil)
	path := filepath.Join(l.dir, "c")
	var one, two int
	as(t, victim, "/", bound(&one, path, l.path, false, testFrame(60, 1)))
	s := l.session(path)
	s.waitFrames(t, 1)
	require.NoError(t, unix.Close(one))
	require.NoError(t, os.Remove(path))
	as(t, attacker, "/", bound(&two, path, l.path, false, testFrame(60, 2)))
	defer func() { _ = unix.Close(two) }()
	other := l.session(path, s)
	assert.Equal(t, [][]byte{testFrame(60, 2)}, other.waitFrames(t, 1))
	assert.EqualValues(t, attacker, other.uid)
	require.ErrorIs(t, s.waitEnd(t), io.EOF)
	assert.Empty(t, l.refused.counts())
}

// TestFirstSenderOfAnother: a user hands a socket over and has it answer to another user's, which that one alone may write to.
func TestFirstSenderOfAnother(t *testing.T) {
	vnettest.NeedRoot(t)
	dir := vnettest.ShortDir(t)
	require.NoError(t, os.Chmod(dir, 0o777))
	at := func(name string) string { return filepath.Join(dir, name) }
	handed := bindAt(t, at("handed"))
	require.NoError(t, os.Chmod(at("handed"), 0o777))
	done := make(chan error, 1)
	go func() {
		_, err := FirstSender(handed, Trust{}, &link.User{UID: attacker}, NewRefusals(slog.New(slog.DiscardHandler)))
		done <- err
	}()
	var theirs, mine int
	as(t, victim, "/", bound(&theirs, at("victim"), at("handed"), false, testFrame(60, 1)))
	defer unix.Close(theirs)
	require.Eventually(t, func() bool { // until that has been thrown away
		n := 0
		onFd(t, handed, func(fd int) (err error) { n, err = unix.IoctlGetInt(fd, unix.SIOCINQ); return err })
		return n == 0
	}, patience, time.Millisecond)
	require.NoError(t, handed.SetReadDeadline(link.Past))
	err := <-done
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.ErrorContains(t, err, "it belongs to user 4001, and user 4002 handed the descriptor over")

	require.NoError(t, handed.SetReadDeadline(time.Time{}))
	go func() {
		_, err := FirstSender(handed, Trust{}, &link.User{UID: attacker}, NewRefusals(slog.New(slog.DiscardHandler)))
		done <- err
	}()
	as(t, attacker, "/", bound(&mine, at("attacker"), at("handed"), false, testFrame(60, 2)))
	defer unix.Close(mine)
	require.NoError(t, result(t, done), "its own it may have")
}

// TestFirstSenderTakesNoDescriptors: they may come along, and would be ours.
func TestFirstSenderTakesNoDescriptors(t *testing.T) {
	for _, asked := range []bool{true, false} {
		dir := vnettest.ShortDir(t)
		handed, client := bindAt(t, filepath.Join(dir, "handed")), bindAt(t, filepath.Join(dir, "client"))
		onFd(t, handed, func(fd int) error { return askSenders(fd, asked) })
		_, _, err := client.WriteMsgUnix(testFrame(60, 1), unix.UnixRights(0, 0, 0), handed.LocalAddr().(*net.UnixAddr))
		require.NoError(t, err)
		before := len(descriptors(t))
		onFd(t, handed, func(fd int) error {
			path, refusal, err := firstOf(fd, func(path string, from sender) error {
				return connectTo(fd, Trust{AllowUIDs: []uint32{0}}, path, nil, from)
			})
			assert.NotEmpty(t, path, "%v", refusal)
			return err
		})
		assert.Len(t, descriptors(t), before)
	}
}

// TestOwnDatagrams: what the daemon itself sends to the shared socket, as by a socket that was handed over and connected to it
// afterwards, speaks for no client.
func TestOwnDatagrams(t *testing.T) {
	l := newLab(t, func(l *lab, _ *Options) { l.isSelf = true })
	p := l.connected("c")
	p.send(testFrame(60, 1), testFrame(60, 2))
	l.dropped(loop, 2)
	assert.Zero(t, l.served())
	assert.Contains(t, l.log.String(), "not served: looping")
}

// TestNoDescriptorsLeft: clients that come and go leave nothing.
func TestNoDescriptorsLeft(t *testing.T) {
	hasNothingLeft(t)
	l := newLab(t, func(l *lab, _ *Options) {
		l.onServe = func(s *session) error {
			if strings.HasSuffix(s.path, "3") {
				return errors.New("no")
			}
			return nil
		}
	})
	for i := range 40 {
		p := l.either(fmt.Sprint("c", i), i%2 == 0)
		p.send(testFrame(60, i))
		if i%10 != 3 {
			l.session(p.path).link.Deliver(batchOf(testFrame(ethernetLen, 1)))
		}
		switch i % 3 {
		case 0:
			require.NoError(t, p.Close())
		case 1:
			require.NoError(t, os.Remove(p.path))
		}
	}
	l.sweep()
}

// TestSentBeforeStart: a datagram that came before the socket's senders were told makes no client of it, but does not keep
// one from becoming it.
func TestSentBeforeStart(t *testing.T) {
	var p *peer
	l := newLab(t, func(l *lab, _ *Options) {
		p = l.unconnected("c")
		p.send(testFrame(60, 1))
	})
	l.dropped(early, 1)
	assert.Empty(t, l.log.String(), "the client cannot help it")
	p.send(testFrame(60, 2))
	assert.Equal(t, [][]byte{testFrame(60, 2)}, l.session(p.path).waitFrames(t, 1))
}
