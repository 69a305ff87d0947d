// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// None is the number of no descriptor.
const None = -1

// A Message is one line from the other side, and what came with it.
type Message struct {
	// Line is without its line end. A single NUL byte, and nothing at all beside a descriptor, are messages too.
	Line []byte
	// FD is the descriptor that came with the first byte, close-on-exec, else None. It is the caller's.
	FD int
	// Bare: the message is no request but a NUL byte or a descriptor without data, the way that expects no reply.
	Bare bool
}

// Close closes the message's descriptor, if it has one.
func (m *Message) Close() {
	if m.FD != None {
		closeFD(m.FD)
		m.FD = None
	}
}

// usualLine is room for most lines, in bytes. It is kept as long as the line is used, which may be as long as a session.
const usualLine = 256

// ReadMessage reads a line of at most limit bytes with its line end, or a single NUL byte. What follows it is lost. The
// time that it takes is limited by c's deadline. Whatever descriptors come, all but one with the first byte are closed.
//
// An error to tell the other side is an *Error, and the Message then still has what came of the line: Bare counts. Anything
// else is an error of the connection; io.EOF if it ended before the first byte.
func ReadMessage(c *net.UnixConn, limit int) (m Message, err error) {
	m.FD = None
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	buf := make([]byte, min(limit, usualLine))
	for first := true; ; first = false {
		if len(m.Line) == len(buf) {
			buf = append(m.Line, make([]byte, limit-len(buf))...)
		}
		room := buf[len(m.Line):]
		if first { // Linux gives what was sent in several calls as one, with the descriptors of the last
			room = room[:1]
		}
		n, fds, err := receive(c, room)
		m.Line = buf[:len(m.Line)+n]
		if first && len(fds) == 1 && (err == nil || errors.Is(err, io.EOF)) {
			m.FD = fds[0]
		} else {
			closeAll(fds)
		}
		m.Bare = first && (n == 0 && m.FD != None || n > 0 && m.Line[0] == 0)
		end := bytes.IndexByte(m.Line, '\n')
		switch {
		case errors.Is(err, errControl), len(fds) > 1:
			return m, newError(BadDescriptor, "more than one descriptor came, or not all of it")
		case len(fds) > 0 && !first:
			return m, newError(BadDescriptor, "a descriptor came behind the first byte: it has to come with that")
		case m.Bare:
			return m, nil
		case err != nil:
			return m, lineError(err, len(m.Line))
		case end >= 0:
			m.Line = m.Line[:end]
			return m, nil
		case len(m.Line) == limit:
			return m, newError(tooLong, "the line is longer than %d bytes", limit)
		}
	}
}

// lineError words the end or the failure of a connection in the middle of a line of which n bytes have come.
func lineError(err error, n int) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return newError(BadRequest, "too slow: %d bytes and no line end came in time", n)
	case errors.Is(err, io.EOF) && n > 0:
		return newError(BadRequest, "the connection ended after %d bytes without a line end", n)
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	return err
}

// errControl: not everything that came beside the data could be taken.
var errControl = errors.New("control messages were cut")

// receive reads once. The descriptors that came are the caller's, also with an error, and close-on-exec.
func receive(c *net.UnixConn, b []byte) (n int, fds []int, err error) {
	oob := make([]byte, controlLen)
	n, fds, flags, perr, err := receiveRights(c, b, oob)
	if perr != nil || flags&unix.MSG_CTRUNC != 0 {
		err = errControl
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	return max(n, 0), fds, err
}

// Discard reads once and throws away what came, descriptors too. It returns how many bytes that were.
func Discard(c *net.UnixConn, b []byte) (int, error) {
	n, fds, err := receive(c, b)
	closeAll(fds)
	if errors.Is(err, errControl) {
		err = nil
	}
	return n, err
}

// rights are the descriptors in the control messages of oob. It returns those that it finds also if there is an error.
func rights(oob []byte) (fds []int, err error) {
	for len(oob) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return fds, fmt.Errorf("parse control message: %w", err)
		}
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_RIGHTS {
			for ; len(data) >= 4; data = data[4:] { // unix.ParseUnixRights panics where a rest is left
				fds = append(fds, int(int32(binary.NativeEndian.Uint32(data))))
			}
		}
		oob = rest
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		closeFD(fd)
	}
}

// closeFD closes a descriptor that another process opened. A TCP socket would make it wait for its last data if asked to.
func closeFD(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
	_ = unix.Close(fd)
}

// WriteMessage sends line and, with its first byte, the descriptor fd unless that is None. fd stays the caller's. The time
// that it takes is limited by c's deadline.
func WriteMessage(c *net.UnixConn, line []byte, fd int) error {
	var oob []byte
	if fd != None {
		oob = unix.UnixRights(fd)
	}
	n, _, err := c.WriteMsgUnix(line, oob, nil)
	if err == nil && n < len(line) {
		_, err = c.Write(line[n:])
	}
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// Pair makes two connected sockets for t, both close-on-exec and with the buffers that carry frames best.
func Pair(t Transport) (ours, theirs int, err error) {
	kind := unix.SOCK_DGRAM
	if t == Stream {
		kind = unix.SOCK_STREAM
	}
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return None, None, fmt.Errorf("make a pair of sockets: %w", err)
	}
	SetBuffers(fds[0], t)
	SetBuffers(fds[1], t)
	return fds[0], fds[1], nil
}

const (
	// streamBuffer is asked for as send and receive buffer of a stream, in bytes: a unix stream is bounded by the buffer
	// of the side that sends, 8 KiB by default on macOS, good for five frames. 128 to 256 KiB gave the best throughput.
	streamBuffer = 256 << 10

	// datagramReceive is asked for as receive buffer for datagrams, in bytes.
	datagramReceive = 4 << 20
)

// SetBuffers asks for the socket buffers that carry frames best. A refusal costs speed only.
func SetBuffers(fd int, t Transport) {
	send, receive := streamBuffer, streamBuffer
	if t == Datagram {
		send, receive = datagramSend, datagramReceive
	}
	grow(fd, unix.SO_SNDBUF, send)
	grow(fd, unix.SO_RCVBUF, receive)
}

// grow asks for a buffer of n bytes unless it is that large already.
func grow(fd, option, n int) {
	if is, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option); err == nil && is >= n {
		return
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, n)
}
