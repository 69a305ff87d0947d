// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestDiagnoser(t *testing.T) {
	l := newLab(t, nil)
	a, b := l.connected("a"), l.connected("b")
	a.send(testFrame(60, 1))
	b.send(testFrame(60, 1))
	s := l.session(a.path)
	l.session(b.path)
	target, err := l.opts.Trust.Check(a.path)
	require.NoError(t, err)
	defer target.Close()
	for _, uid := range []int{os.Geteuid(), attacker} {
		t.Run(fmt.Sprint("user ", uid), func(t *testing.T) {
			if uid == attacker {
				needRoot(t)
			}
			d := diagnoser{shared: l.shared.fd}
			defer d.close()
			var sock diagSocket
			empty := func() (is bool) {
				ask := func() error { is = d.empty(&sock, target); return nil }
				if uid == attacker {
					as(t, uid, "/", ask)
				} else {
					_ = ask()
				}
				return is
			}
			require.Eventually(t, empty, patience, time.Millisecond, "it is found")
			assert.Len(t, d.dev, 1, "it has learned from the shared socket")
			for _, n := range []int{14, ethernetLen, 60000} {
				s.link.Deliver(batchOf(testFrame(n, 1)))
				assert.False(t, empty(), "%d bytes wait", n)
				assert.Len(t, a.recv(), n)
				assert.True(t, empty(), "%d bytes are read", n)
			}
		})
	}
	t.Run("gone", func(t *testing.T) {
		d := diagnoser{shared: l.shared.fd}
		defer d.close()
		var sock diagSocket
		require.Eventually(t, func() bool { return d.empty(&sock, target) }, patience, time.Millisecond)
		require.NoError(t, a.Close())
		assert.False(t, d.empty(&sock, target))
		assert.False(t, d.empty(new(diagSocket), target), "and not found")
	})
	t.Run("closed", func(t *testing.T) {
		var d diagnoser
		d.close()
		assert.False(t, d.empty(new(diagSocket), target))
	})
}

// TestSearches: the list of all sockets is read once a second for all, and less often for what is never found.
func TestSearches(t *testing.T) {
	dir := shortDir(t)
	var d diagnoser
	defer d.close()
	targets := make([]*Target, 100) // that nobody has bound any more
	for i := range targets {
		path := fmt.Sprint(dir, "/", i)
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
		require.NoError(t, unix.Close(fd))
		targets[i], err = Trust{AllowUIDs: []uint32{uint32(os.Geteuid())}}.Check(path)
		require.NoError(t, err)
		defer targets[i].Close()
	}
	socks := make([]diagSocket, len(targets))
	reads := func() int {
		d.finder.mu.Lock()
		defer d.finder.mu.Unlock()
		return d.finder.reads
	}
	began := time.Now()
	for time.Since(began) < 2500*time.Millisecond {
		for i, target := range targets {
			require.False(t, d.empty(&socks[i], target))
		}
		time.Sleep(time.Millisecond)
	}
	assert.LessOrEqual(t, reads(), 1+int(time.Since(began)/searchEvery), "for all of them together")
	for i := range socks { // the first one may have been alone in the first list
		assert.LessOrEqual(t, socks[i].search.vain, 3)
		assert.Positive(t, socks[i].search.vain)
	}
}

// BenchmarkDiagnose is what it costs to ask whether a client has read everything.
func BenchmarkDiagnose(b *testing.B) {
	dir := shortDir(b)
	conn := bindAt(b, dir+"/a")
	for range 200 { // sockets of others
		fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		require.NoError(b, err)
		defer unix.Close(fd[0])
		defer unix.Close(fd[1])
	}
	target, err := Trust{AllowUIDs: []uint32{0}}.Check(dir + "/a")
	require.NoError(b, err)
	defer target.Close()
	var d diagnoser
	defer d.close()
	onFd(b, conn, func(fd int) error { d.shared = fd; return nil })
	var sock diagSocket
	require.Eventually(b, func() bool { return d.empty(&sock, target) }, patience, time.Millisecond)
	b.ReportAllocs()
	for b.Loop() {
		d.empty(&sock, target)
	}
}

// FuzzAnswers: the kernel is believed, but not with indexes.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{8, 0, 1, 0, 1, 2, 3, 4, 12, 0, 4, 0, 5, 0, 0, 0, 6, 0, 0, 0})
	f.Add([]byte{255, 255, 4, 0})
	f.Fuzz(func(t *testing.T, attrs []byte) {
		for _, kind := range []uint16{attrVFS, attrQueue} {
			require.LessOrEqual(t, len(attr(attrs, kind)), len(attrs))
		}
	})
}
