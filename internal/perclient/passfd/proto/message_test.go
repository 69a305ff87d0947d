// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	// The runtime opens its own descriptors for waiting with the first connection.
	if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		_ = ln.Close()
	}
	goleak.VerifyTestMain(m)
}

// connPair returns the two ends of a connection.
func connPair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		unix.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		conns[i] = c.(*net.UnixConn)
		t.Cleanup(func() { _ = c.Close() })
	}
	return conns[0], conns[1]
}

// openFiles is how many descriptors this process has.
func openFiles(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/dev/fd")
	require.NoError(t, err)
	return len(d)
}

// null is n descriptors of /dev/null.
func null(t *testing.T, n int) (fds []int) {
	t.Helper()
	for range n {
		f, err := os.Open(os.DevNull)
		require.NoError(t, err)
		t.Cleanup(func() { _ = f.Close() })
		fds = append(fds, int(f.Fd()))
	}
	return fds
}

// A part is one sendmsg.
type part struct {
	data string
	fds  int
}

func TestReadMessage(t *testing.T) {
	for _, c := range []struct {
		name  string
		parts []part
		line  string
		fd    bool
		bare  bool
		code  Code // of the error
	}{
		{"a line", []part{{"{}\n", 0}}, "{}", false, false, ""},
		{"a line with a descriptor", []part{{"{}\n", 1}}, "{}", true, false, ""},
		{"byte by byte", []part{{"{", 1}, {"}", 0}, {"\n", 0}}, "{}", true, false, ""},
		{"more behind it", []part{{"{}\nxyz", 0}}, "{}", false, false, ""},
		{"an empty line with a descriptor", []part{{"\n", 1}}, "", true, false, ""},
		{"NUL", []part{{"\x00", 1}}, "\x00", true, true, ""},
		{"NUL without a descriptor", []part{{"\x00", 0}}, "\x00", false, true, ""},
		{"NUL and more", []part{{"\x00{}\n", 1}}, "\x00", true, true, ""},
		{"two descriptors", []part{{"{}\n", 2}}, "{", false, false, BadDescriptor},
		{"as many as there may be", []part{{"{}\n", 253}}, "{", false, false, BadDescriptor},
		{"NUL and two descriptors", []part{{"\x00", 2}}, "\x00", false, true, BadDescriptor},
		{"a descriptor late", []part{{"{", 0}, {"}\n", 1}}, "{}\n", false, false, BadDescriptor},
		{"a descriptor twice", []part{{"{", 1}, {"}\n", 1}}, "{}\n", false, false, BadDescriptor},
		{"an end in the middle", []part{{"{", 1}}, "{", false, false, BadRequest},
		{"too long", []part{{strings.Repeat("x", 101), 1}}, strings.Repeat("x", 100), false, false, tooLong},
		{"as long as it may be", []part{{strings.Repeat("x", 99) + "\n", 0}}, strings.Repeat("x", 99), false, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := connPair(t)
			fds := null(t, 253)
			before := openFiles(t)
			for _, p := range c.parts {
				var oob []byte
				if p.fds > 0 {
					oob = unix.UnixRights(fds[:p.fds]...)
				}
				_, _, err := a.WriteMsgUnix([]byte(p.data), oob, nil)
				require.NoError(t, err)
			}
			require.NoError(t, a.CloseWrite())
			m, err := ReadMessage(b, 100)
			assert.Equal(t, c.line, string(m.Line))
			assert.Equal(t, c.bare, m.Bare)
			assert.Equal(t, c.fd, m.FD != None)
			if c.code == "" {
				require.NoError(t, err)
			} else {
				e, ok := errors.AsType[*Error](err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, c.code, e.Code)
			}
			if m.FD != None {
				flags, err := unix.FcntlInt(uintptr(m.FD), unix.F_GETFD, 0)
				require.NoError(t, err)
				assert.NotZero(t, flags&unix.FD_CLOEXEC)
				assert.Equal(t, before+1, openFiles(t))
			}
			m.Close()
			m.Close() // again is nothing
			assert.Equal(t, before, openFiles(t), "descriptors")
		})
	}
}

func TestReadMessageEnds(t *testing.T) {
	t.Run("at once", func(t *testing.T) {
		a, b := connPair(t)
		require.NoError(t, a.Close())
		_, err := ReadMessage(b, 100)
		assert.ErrorIs(t, err, io.EOF)
	})
	t.Run("too slow", func(t *testing.T) {
		a, b := connPair(t)
		require.NoError(t, b.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		before := openFiles(t)
		_, _, err := a.WriteMsgUnix([]byte("{"), unix.UnixRights(0), nil)
		require.NoError(t, err)
		_, err = ReadMessage(b, 100)
		e, ok := errors.AsType[*Error](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, BadRequest, e.Code)
		assert.Contains(t, e.Text, "too slow: 1 bytes")
		assert.Equal(t, before, openFiles(t))
	})
	t.Run("closed", func(t *testing.T) {
		_, b := connPair(t)
		require.NoError(t, b.Close())
		_, err := ReadMessage(b, 100)
		assert.ErrorIs(t, err, net.ErrClosed)
	})
}

// TestLinger: a TCP socket that was told to wait for its last data does not make us wait.
func TestLinger(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	// What is not taken fills the buffers.
	require.NoError(t, c.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
	for err == nil {
		_, err = c.Write(make([]byte, 1<<20))
	}
	f, err := c.(*net.TCPConn).File()
	require.NoError(t, err)
	require.NoError(t, c.Close())
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 60}))
	require.NoError(t, unix.SetNonblock(fd, false))
	require.NoError(t, f.Close())
	began := time.Now()
	closeFD(fd)
	assert.Less(t, time.Since(began), 30*time.Second)
}

func TestWriteMessageInPieces(t *testing.T) {
	a, b := connPair(t)
	require.NoError(t, a.SetWriteBuffer(4096))
	line := []byte(strings.Repeat("x", 1<<20) + "\n")
	wrote := make(chan error, 1)
	go func() { wrote <- WriteMessage(a, line, 0) }()
	m, err := ReadMessage(b, 2<<20)
	require.NoError(t, err)
	assert.Len(t, m.Line, 1<<20)
	assert.NotEqual(t, None, m.FD)
	m.Close()
	assert.NoError(t, <-wrote)
}

func TestPair(t *testing.T) {
	for transport, kind := range map[Transport]int{Datagram: unix.SOCK_DGRAM, Stream: unix.SOCK_STREAM} {
		t.Run(string(transport), func(t *testing.T) {
			before := openFiles(t)
			a, b, err := Pair(transport)
			require.NoError(t, err)
			for _, fd := range []int{a, b} {
				got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
				require.NoError(t, err)
				assert.Equal(t, kind, got)
				flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
				require.NoError(t, err)
				assert.NotZero(t, flags&unix.FD_CLOEXEC)
				flags, err = unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
				require.NoError(t, err)
				assert.Zero(t, flags&unix.O_NONBLOCK, "the client's is as a client makes it")
				send, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
				require.NoError(t, err)
				assert.GreaterOrEqual(t, send, datagramSend)
				require.NoError(t, unix.Close(fd))
			}
			assert.Equal(t, before, openFiles(t))
		})
	}
}

func FuzzRights(f *testing.F) {
	f.Add(unix.UnixRights(3))
	f.Add(unix.UnixRights(3, 4, 5))
	f.Add(append(unix.UnixRights(3), unix.UnixRights(4)...))
	f.Add(unix.UnixRights(3)[:unix.CmsgLen(1)])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, oob []byte) {
		fds, err := rights(oob)
		if err == nil && len(oob) > 0 {
			assert.LessOrEqual(t, len(fds)*4, len(oob))
		}
	})
}

// FuzzReadMessage: whatever comes on attach and adopt, in whatever pieces and with whatever descriptors, is a line with at most
// one descriptor, an error to tell, or the connection's end; and no descriptor is left behind.
func FuzzReadMessage(f *testing.F) {
	f.Add([]byte(`{"version":1}`+"\n"), uint8(200), uint8(0), uint8(0))
	f.Add([]byte("\x00"), uint8(1), uint8(1), uint8(0))
	f.Add([]byte{}, uint8(1), uint8(0), uint8(0))
	f.Add([]byte("ab\ncd\n"), uint8(1), uint8(2), uint8(1))
	f.Add(bytes.Repeat([]byte("x"), 200), uint8(7), uint8(1), uint8(3))
	f.Fuzz(func(t *testing.T, in []byte, piece, fds, behind uint8) {
		const limit = 128
		if len(in) > 1024 {
			return // finds nothing more
		}
		ours, theirs := connPair(t)
		require.NoError(t, ours.SetDeadline(time.Now().Add(20*time.Second)))
		null, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer null.Close()
		n := int(fds % 5)
		size := max(int(piece), 1+len(in)/16) // what the system queues is bounded: by writes, or 8 KiB (net.local.stream.sendspace)
		for i := 0; i < len(in); i += size {
			var oob []byte
			if i/size == int(behind%4) && n > 0 {
				same := make([]int, n)
				for j := range same {
					same[j] = int(null.Fd())
				}
				oob = unix.UnixRights(same...)
			}
			_, _, err := theirs.WriteMsgUnix(in[i:min(i+size, len(in))], oob, nil)
			require.NoError(t, err)
		}
		require.NoError(t, theirs.Close())
		m, err := ReadMessage(ours, limit)
		defer func() { m.Close() }()
		require.LessOrEqual(t, len(m.Line), limit)
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			require.True(t, ok || errors.Is(err, io.EOF) && len(in) == 0, "%v", err)
			if ok {
				require.NotEmpty(t, e.Code)
			}
			require.Equal(t, None, m.FD, "a descriptor with an error is closed")
			return
		}
		require.NotContains(t, string(m.Line), "\n")
		require.True(t, bytes.HasPrefix(in, m.Line))
		if m.FD != None {
			require.Equal(t, 1, n)
		}
	})
}
