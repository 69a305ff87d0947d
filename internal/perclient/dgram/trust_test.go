// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"bytes"
	"fmt"
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

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// bindAt binds a datagram socket.
func bindAt(t testing.TB, path string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestCheck(t *testing.T) {
	dir := vnettest.ShortDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	bindAt(t, at("sock"))
	bindAt(t, at("own"))
	require.NoError(t, os.Link(at("own"), at("own2")))
	require.NoError(t, os.Symlink(at("sock"), at("link")))
	require.NoError(t, os.WriteFile(at("file"), nil, 0o600))
	me := uint32(os.Geteuid())
	trust := Trust{AllowUIDs: []uint32{me}, Own: []string{at("own")}}
	tests := []struct {
		name, path string
		want       cause
	}{
		{"a socket", at("sock"), ""},
		{"by another way", dir + "/.//sock", ""},
		{"nothing", "", unbound},
		{"abstract", "\x00sock", abstract},
		{"relative", "sock", relative},
		{"an @, which is a name here", "@sock", relative},
		{"own", at("own"), ownPath},
		{"own, by another way", dir + "//own", ownPath},
		{"own, by another name", at("own2"), ownPath},
		{"a link", at("link"), isLink},
		{"a file", at("file"), noSocket},
		{"a device", "/dev/null", noSocket},
		{"gone", at("nothing"), vanished},
		{"with a zero", at("so\x00ck"), vanished},
		{"long", "/" + strings.Repeat("x", 107), tooLong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			target, err := trust.check(tt.path)
			if tt.want == "" {
				require.NoError(t, err)
				defer target.pin.Close()
				assert.Equal(t, tt.path, target.path)
				assert.Equal(t, me, target.uid)
				assert.True(t, target.same())
				return
			}
			var u *untrusted
			require.ErrorAs(t, err, &u)
			assert.Equal(t, tt.want, u.Reason, "%v", err)
			assert.NotEmpty(t, u.Advice)
			assert.Contains(t, err.Error(), fmt.Sprintf("%q", tt.path))
		})
	}
}

// TestUntrusted sends from addresses that get no session, and no answer.
func TestUntrusted(t *testing.T) {
	for _, tt := range []struct {
		name string
		want cause
		says string
	}{
		{"unbound", unbound, "bind the client's socket to a path"},
		{"abstract", abstract, "no owner"},
		{"relative", relative, "absolute path"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, nil)
			var from *net.UnixAddr
			switch tt.name {
			case "abstract":
				if runtime.GOOS == "darwin" {
					t.Skip("darwin: each name of a unix socket is a path (unix(4); xnu, bsd/kern/uipc_usrreq.c: unp_bind)")
				}
				from = &net.UnixAddr{Name: "@" + l.dir, Net: "unixgram"}
			case "relative":
				t.Chdir(l.dir)
				from = &net.UnixAddr{Name: "rel", Net: "unixgram"}
			}
			conn, err := net.DialUnix("unixgram", from, &net.UnixAddr{Name: l.path, Net: "unixgram"})
			require.NoError(t, err)
			defer conn.Close()
			for range 3 {
				_, err = conn.Write(testFrame(60, 1))
				require.NoError(t, err)
			}
			l.dropped(tt.want, 3)
			assert.Zero(t, l.served())
			log := l.log.String()
			assert.Equal(t, 1, strings.Count(log, "level=WARN"), "%s", log)
			assert.Contains(t, log, tt.says)
			if from != nil {
				assert.Contains(t, log, strings.TrimPrefix(from.Name, "@"))
			}
		})
	}
}

// TestRootOwned: the sockets of root are for daemons that allow them.
func TestRootOwned(t *testing.T) {
	l := newLab(t, func(_ *lab, o *Options) { o.Trust.AllowUIDs = nil })
	p := l.unconnected("c")
	if os.Geteuid() != 0 {
		p.send(testFrame(60, 1))
		l.session(p.path).waitFrames(t, 1)
		return
	}
	p.send(testFrame(60, 1))
	l.dropped(ownerRoot, 1)
	assert.Contains(t, l.log.String(), "--allow-uid 0")
	p.silent(20 * time.Millisecond)
}

// TestVanishedAddress: a path that is gone when its datagram is read.
func TestVanishedAddress(t *testing.T) {
	l := newLab(t, nil)
	p := l.unconnected("c")
	require.NoError(t, os.Rename(p.path, p.path+"2"))
	for range 5 {
		p.send(testFrame(60, 1))
	}
	l.dropped(vanished, 5)
	// It is back, and looked at again after a moment.
	require.NoError(t, os.Rename(p.path+"2", p.path))
	require.Eventually(t, func() bool {
		p.send(testFrame(60, 1))
		return l.clientCount() == 1
	}, patience, 50*time.Millisecond)
}

// TestLinkTrick: a client that is served puts a link to another program's socket at its path.
func TestLinkTrick(t *testing.T) {
	for _, connected := range []bool{true, false} {
		for _, pinned := range []bool{true, false} {
			t.Run(fmt.Sprintf("connected=%t/pinned=%t", connected, pinned), func(t *testing.T) {
				l := newLab(t, nil)
				log := bindAt(t, filepath.Join(l.dir, "log")) // as /dev/log: any user may write to it
				p, s := l.joined("a", connected)
				if !pinned {
					s.link.(*client).pipe.unpin()
				}
				require.NoError(t, os.Rename(p.path, p.path+"2"))
				require.NoError(t, os.Symlink(filepath.Join(l.dir, "log"), p.path))
				for range 3 {
					s.link.Deliver(batchOf(testFrame(60, 2), testFrame(60, 3)))
				}
				p.send(testFrame(60, 4))
				l.sweep()
				require.Error(t, s.waitEnd(t), "a client that could not be found again is given up")
				for range 3 {
					p.send(testFrame(60, 5))
				}
				require.Eventually(t, func() bool { return l.refused.counts()[isLink] >= 3 }, patience, time.Millisecond)
				(&peer{UnixConn: log, t: t}).silent(50 * time.Millisecond)
			})
		}
	}
}

// unpin makes the pipe do without the inode, as on a system that cannot hold it.
func (p *pipe) unpin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target.pinned, p.target.to = false, []byte(p.target.path)
}

// FuzzClassify: whatever a sender's address is, it is refused, or an absolute path that a socket can have.
func FuzzClassify(f *testing.F) {
	for _, s := range []string{"", "\x00", "\x00x", "x", "/x", "//", "/a/../b", "/\xff", "@x", "/" + strings.Repeat("a", 107), "/x\x00y"} {
		f.Add([]byte(s))
	}
	trust := Trust{AllowUIDs: []uint32{uint32(os.Geteuid())}, Own: []string{"/"}}
	f.Fuzz(func(t *testing.T, name []byte) {
		r := classify(name)
		if r == "" {
			require.True(t, filepath.IsAbs(string(name)))
			require.LessOrEqual(t, len(name), maxPath)
		}
		target, err := trust.check(string(name))
		if err != nil {
			var u *untrusted
			require.ErrorAs(t, err, &u)
			require.NotEmpty(t, u.Advice)
			if r != "" {
				require.Equal(t, r, u.Reason)
			}
			require.NotContains(t, err.Error(), "\n")
			return
		}
		target.pin.Close()
		require.Empty(t, r)
	})
}

// TestWarningsByReason: a client that breaks one rule without end does not keep another one from being told its own.
func TestWarningsByReason(t *testing.T) {
	var b bytes.Buffer
	r := NewRefusals(slog.New(slog.NewTextHandler(&b, nil)))
	for range 1000 {
		r.tell(refuse("", unbound, nil), 1)
	}
	r.tell(refuse("relative", relative, nil), 2)
	assert.Equal(t, 2, strings.Count(b.String(), "level=WARN"), b.String())
	assert.Contains(t, b.String(), "not served: relative\" address=relative dropped=2")
	assert.NotContains(t, b.String(), "<nil>")
	r.add(early, 3)
	list := r.List()
	for i := range list {
		assert.WithinDuration(t, time.Now(), list[i].Last, patience)
		list[i].Last = time.Time{}
	}
	assert.Equal(t, []status.Refusal{
		{Reason: "early", Count: 3},
		{Reason: "relative", Count: 2, From: `datagrams from "relative"`, Advice: advice[relative]},
		{Reason: "unbound", Count: 1000, From: `datagrams from ""`, Advice: advice[unbound]},
	}, list)
}
