// SPDX-License-Identifier: Apache-2.0

package passfd

import (
	"encoding/json"
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

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// pair is a connected pair of sockets as a client makes it: the end that it keeps and the one that it hands over.
func pair(t *testing.T, transport proto.Transport) (kept, handed *os.File) {
	t.Helper()
	a, b, err := proto.Pair(transport)
	require.NoError(t, err)
	kept, handed = os.NewFile(uintptr(a), "kept"), os.NewFile(uintptr(b), "handed")
	t.Cleanup(func() { _, _ = kept.Close(), handed.Close() })
	return kept, handed
}

// socketOf is a new socket as a file.
func socketOf(t *testing.T, kind int) *os.File {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
	require.NoError(t, err)
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "socket")
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// elsewhere makes the system's answer about this process that of another one for as long as the test runs: here client and
// daemon are one process, and its own sockets are refused.
func elsewhere(r *rig) { r.self = -1 }

// openFor makes the descriptor that the vectors name.
func openFor(t *testing.T, what string) *os.File {
	t.Helper()
	kept := func(f *os.File, err error) *os.File {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	switch what {
	case "dgram", "stream":
		_, f := pair(t, proto.Transport(what))
		return f
	case "seqpacket":
		if runtime.GOOS == "darwin" {
			t.Skip("darwin: unix sockets are streams or datagrams (xnu, bsd/kern/uipc_proto.c)")
		}
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fds[1]))
		return kept(os.NewFile(uintptr(fds[0]), what), nil)
	case "bound":
		return bindAt(t, filepath.Join(vnettest.ShortDir(t), "b"))
	case "relative":
		t.Chdir(vnettest.ShortDir(t))
		return bindAt(t, "b")
	case "unbound":
		return socketOf(t, unix.SOCK_DGRAM)
	case "unconnected stream":
		return socketOf(t, unix.SOCK_STREAM)
	case "listener":
		f := socketOf(t, unix.SOCK_STREAM)
		require.NoError(t, unix.Bind(int(f.Fd()), &unix.SockaddrUnix{Name: filepath.Join(vnettest.ShortDir(t), "l")}))
		require.NoError(t, unix.Listen(int(f.Fd()), 1))
		return f
	case "file":
		return kept(os.CreateTemp(t.TempDir(), "file"))
	case "tcp":
		ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		require.NoError(t, err)
		defer ln.Close()
		return kept(ln.File())
	}
	require.Fail(t, "no such descriptor", what)
	return nil
}

// hand sends a first message with descriptors.
func hand(t *testing.T, c *net.UnixConn, data string, files ...*os.File) {
	t.Helper()
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err := c.WriteMsgUnix([]byte(data), oob, nil)
	require.NoError(t, err)
}

func TestAdoptVectors(t *testing.T) {
	var v struct {
		Adopt []struct {
			Name, Data  string
			Descriptors []string
			Reply       bool
			Refused     bool
			Code        proto.Code
		}
	}
	b, err := os.ReadFile("../../../attach/testdata/protocol.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &v))
	require.NotEmpty(t, v.Adopt)
	for _, q := range v.Adopt {
		t.Run(q.Name, func(t *testing.T) {
			r := newRig(t, elsewhere)
			c := r.dial(t, "adopt")
			var files []*os.File
			for _, d := range q.Descriptors {
				files = append(files, openFor(t, d))
			}
			hand(t, c, q.Data, files...)
			if q.Reply {
				m, reply := readReply(t, c)
				assert.Equal(t, proto.None, m.FD)
				if q.Code != "" {
					require.NotNil(t, reply.Error)
					assert.Equal(t, q.Code, reply.Error.Code)
				} else {
					require.Nil(t, reply.Error)
				}
			}
			if strings.Contains(q.Data, "wait") {
				require.NoError(t, c.Close())
			} else {
				atEnd(t, c)
			}
			if q.Refused || q.Code != "" {
				assert.Zero(t, r.opts.Clients.Clients())
				assert.Contains(t, r.log.String(), "client refused")
				return
			}
			require.Eventually(t, func() bool { return strings.Contains(r.log.String(), "serving a client") }, patience, time.Millisecond)
			assert.Contains(t, r.log.String(), "via=adopt")
		})
	}
}

// TestNotAdopted: nothing is told where no answer is expected, but the socket ends.
func TestNotAdopted(t *testing.T) {
	r := newRig(t, func(r *rig) {
		elsewhere(r)
		r.opts.Clients = perclient.NewServer(perclient.Options{Network: r.net, MaxClients: 1, Log: slog.New(slog.DiscardHandler)})
	})
	r.attach(t, proto.Request{})
	kept, _ := r.adopt(t, proto.Datagram, nil)
	require.Eventually(t, func() bool { return strings.Contains(r.log.String(), "code=full") }, patience, time.Millisecond)
	_, err := kept.Write(ethernet(60))
	require.Error(t, err)
}

func TestBadDescriptors(t *testing.T) {
	for _, c := range []struct {
		what      string
		transport proto.Transport
		says      string
	}{
		{"file", proto.Datagram, "no unix socket"},
		{"tcp", proto.Stream, "no unix socket"},
		{"seqpacket", proto.Datagram, "socket type 5"},
		{"listener", proto.Stream, "a socket that listens"},
		{"unconnected stream", proto.Stream, "not connected"},
		{"unbound", proto.Datagram, "neither connected nor bound"},
		{"relative", proto.Datagram, "bind it to an absolute path"},
		{"stream", proto.Datagram, `"stream"`},
		{"dgram", proto.Stream, `"dgram"`},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := newRig(t, elsewhere)
			_, err := proto.Adopt(t.Context(), r.dir, openFor(t, c.what), &proto.Request{Transport: c.transport})
			assert.Equal(t, proto.BadDescriptor, codeOf(t, err))
			assert.ErrorContains(t, err, c.says)
			assert.Zero(t, r.opts.Clients.Clients())
		})
	}
}

// TestOwnSocketsAreRefused: frames would go round, and some would keep themselves alive.
func TestOwnSocketsAreRefused(t *testing.T) {
	shared := filepath.Join(vnettest.ShortDir(t), "sock")
	own := bindAt(t, shared)
	fileOf := func(t *testing.T, c *net.UnixConn) *os.File {
		f, err := c.File()
		require.NoError(t, err)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	for _, c := range []struct {
		name      string
		transport proto.Transport
		elsewhere bool
		make      func(t *testing.T, r *rig) *os.File
	}{
		{"the other end of what attach gave", proto.Datagram, false, func(t *testing.T, r *rig) *os.File {
			return r.attach(t, proto.Request{}).File
		}},
		{"the same, a stream", proto.Stream, false, func(t *testing.T, r *rig) *os.File {
			return r.attach(t, proto.Request{Transport: proto.Stream}).File
		}},
		{"a connection to the daemon", proto.Stream, true, func(t *testing.T, r *rig) *os.File { return fileOf(t, r.dial(t, "attach")) }},
		{"a socket connected to the shared one", proto.Datagram, true, func(t *testing.T, _ *rig) *os.File {
			f := socketOf(t, unix.SOCK_DGRAM)
			require.NoError(t, unix.Connect(int(f.Fd()), &unix.SockaddrUnix{Name: shared}))
			return f
		}},
		{"the shared one", proto.Datagram, true, func(*testing.T, *rig) *os.File { return own }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.opts.Trust.Own = append(r.opts.Trust.Own, shared)
				if c.elsewhere {
					elsewhere(r)
				}
			})
			_, err := proto.Adopt(t.Context(), r.dir, c.make(t, r), &proto.Request{Transport: c.transport, Wait: true})
			assert.Equal(t, proto.BadDescriptor, codeOf(t, err))
			assert.ErrorContains(t, err, "daemon")
		})
	}
	t.Run("the very connection", func(t *testing.T) {
		r := newRig(t, elsewhere)
		c := r.dial(t, "adopt")
		hand(t, c, `{"transport":"stream","wait":true}`+"\n", fileOf(t, c))
		refused(t, c, proto.BadDescriptor)
		atEnd(t, c)
	})
}

// TestClosedPairEnds: on macOS a look tells that the client has gone, elsewhere the next frame for it.
func TestClosedPairEnds(t *testing.T) {
	r := newRig(t, elsewhere)
	kept, _ := r.adopt(t, proto.Datagram, nil)
	r.only(t) // nothing tells that it has been adopted
	exchange(t, kept, proto.Datagram)
	require.NoError(t, kept.Close())
	r.unheard(t)
}

// bindAt binds a new datagram socket to path.
func bindAt(t *testing.T, path string) *os.File {
	t.Helper()
	f := socketOf(t, unix.SOCK_DGRAM)
	require.NoError(t, unix.Bind(int(f.Fd()), &unix.SockaddrUnix{Name: path}))
	return f
}

// TestBoundPathGone: nothing can become the first sender any more, or something else has taken the path, also while the link was
// detached.
func TestBoundPathGone(t *testing.T) {
	for _, when := range []string{"before it was seen", "after", "while the link was detached"} {
		t.Run(when, func(t *testing.T) {
			path := filepath.Join(vnettest.ShortDir(t), "b")
			fd, err := unix.Dup(int(bindAt(t, path).Fd()))
			require.NoError(t, err)
			s := NewServer(Options{Log: slog.New(slog.DiscardHandler)})
			client := perclient.Client{Via: viaAdopt, Path: path}
			l, err := s.Link(&perclient.Detached{Client: client, Link: link.State{Socket: link.Descriptor{FD: fd}, Waits: true}})
			require.NoError(t, err)
			p := l.(*pending)
			over := make(chan error, 1)
			run := func() { over <- p.Run(nil) }
			go run()
			if when == "before it was seen" {
				require.NoError(t, os.Remove(path))
			}
			p.Check()
			switch require.Eventually(t, func() bool { return p.at.Load() != nil || len(over) == 1 }, patience, time.Millisecond); when {
			case "after":
				require.NoError(t, os.Remove(path))
			case "while the link was detached":
				p.Interrupt()
				require.ErrorIs(t, <-over, link.ErrDetached)
				v := perclient.Detached{Client: client, Link: p.Detach()}
				require.NoError(t, os.Rename(path, path+".moved"))
				bindAt(t, path)
				l, err = s.Link(&v)
				require.NoError(t, err)
				p = l.(*pending)
				go run()
			}
			require.Eventually(t, func() bool { p.Check(); return len(over) == 1 }, patience, time.Millisecond)
			require.ErrorIs(t, <-over, errPathGone)
			require.Eventually(t, func() bool { return !p.looking.Load() }, patience, time.Millisecond)
			require.NoError(t, p.Close())
		})
	}
}

// TestBoundEndsBeforeTheFirstSender as any other does.
func TestBoundEndsBeforeTheFirstSender(t *testing.T) {
	r := newRig(t, elsewhere)
	a, err := proto.Adopt(t.Context(), r.dir, openFor(t, "bound"), &proto.Request{Wait: true})
	require.NoError(t, err)
	require.NoError(t, a.Lifeline.Close())
	r.gone(t, lifelineEnded)
	_, err = proto.Adopt(t.Context(), r.dir, openFor(t, "bound"), nil)
	require.NoError(t, err)
	r.only(t)
	r.Stop()
	r.opts.Clients.Stop()
	r.gone(t, link.ErrShutdown.Error())
}

// TestFirstSenderRefused: who hands over a socket is told in the answer of a sender that has spoken already and is not served, as
// root is not; of one that speaks later the log and the list of refusals tell.
func TestFirstSenderRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		bound  bool // the sender
		says   string
		served bool
	}{
		{"without an address", false, "unbound: bind the client's socket to a path", false},
		{"root", true, "owned by root: have socket_vmnet2 exec --dgram run the client", os.Geteuid() != 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, dir := newRig(t, elsewhere), vnettest.ShortDir(t)
			handed, from := bindAt(t, dir+"/handed"), socketOf(t, unix.SOCK_DGRAM)
			if tt.bound {
				from = bindAt(t, dir+"/sender")
			}
			send := func() {
				require.NoError(t, unix.Sendto(int(from.Fd()), ethernet(60), 0, &unix.SockaddrUnix{Name: dir + "/handed"}))
			}
			send()
			_, err := proto.Adopt(t.Context(), r.dir, handed, &proto.Request{})
			if tt.served {
				require.NoError(t, err)
				return
			}
			assert.Equal(t, proto.Denied, codeOf(t, err))
			require.ErrorContains(t, err, tt.says)
			assert.Contains(t, r.log.String(), "datagram dropped: its address is not served")
			_, err = proto.Adopt(t.Context(), r.dir, handed, &proto.Request{})
			require.NoError(t, err, "what was refused waits no more")
			r.only(t)
			send()
			require.Eventually(t, func() bool { return r.opts.Refused.List()[0].Count == 2 }, patience, time.Millisecond)
		})
	}
}

// TestDescriptorsAmongFrames: a client that sends some with its frames, also the other end of the pair, leaves none with us,
// and its end is seen.
func TestDescriptorsAmongFrames(t *testing.T) {
	for _, transport := range []proto.Transport{proto.Datagram, proto.Stream} {
		t.Run(string(transport), func(t *testing.T) {
			r := newRig(t, elsewhere)
			kept, handed := pair(t, transport)
			_, err := proto.Adopt(t.Context(), r.dir, handed, &proto.Request{Transport: transport})
			require.NoError(t, err)
			before := openFiles(t)
			b := ethernet(60)
			if transport == proto.Stream {
				b = frame.Append(nil, b)
			}
			for range 20 {
				require.NoError(t, unix.Sendmsg(int(kept.Fd()), b, unix.UnixRights(0, int(handed.Fd()), int(kept.Fd())), nil, 0))
				_, err = io.ReadFull(kept, make([]byte, len(b)))
				require.NoError(t, err)
			}
			assert.Eventually(t, func() bool { return openFiles(t) <= before }, patience, time.Millisecond)
			require.NoError(t, handed.Close())
			require.NoError(t, kept.Close())
			r.unheard(t)
		})
	}
}
