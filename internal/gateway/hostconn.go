// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// hostConn is the host's end of a flow. One goroutine reads and one writes.
type hostConn struct {
	net.Conn
	tcp *net.TCPConn // nil for UDP
	raw syscall.RawConn

	// The result of one read, which try makes as soon as there is something. They are here because each call would put them on
	// the heap otherwise.
	try func(fd uintptr) bool
	buf *[bufSize]byte
	n   int
	err error
}

// newHostConn takes a connection over. A TCP connection ends with a reset unless finish was called, whatever ends the process: the
// other side shall not take what it got for all there was.
func newHostConn(c net.Conn) *hostConn {
	h := &hostConn{Conn: c}
	h.try = h.tryRead
	h.raw, _ = c.(syscall.Conn).SyscallConn()
	if h.tcp, _ = c.(*net.TCPConn); h.tcp != nil {
		_ = h.tcp.SetLinger(0)
	}
	return h
}

// next returns what arrived, in a buffer that the caller puts back. io.EOF is the orderly end of a TCP connection.
func (h *hostConn) next() (*[bufSize]byte, int, error) {
	if err := h.raw.Read(h.try); err != nil {
		return nil, 0, err
	}
	buf := h.buf
	h.buf = nil
	switch {
	case h.err != nil:
		return nil, 0, h.err
	case h.n == 0 && h.tcp != nil:
		buffers.Put(buf)
		return nil, 0, io.EOF
	}
	return buf, h.n, nil
}

// tryRead reads what is there. It reports false, without a buffer, if there is nothing yet.
func (h *hostConn) tryRead(fd uintptr) bool {
	h.buf = buffers.Get().(*[bufSize]byte)
	h.n, h.err = readNow(fd, h.buf[:])
	if h.err == nil {
		return true
	}
	buffers.Put(h.buf)
	h.buf = nil
	return !errors.Is(h.err, syscall.EAGAIN)
}

// closeWrite ends our side of a TCP connection in order.
func (h *hostConn) closeWrite() { _ = h.tcp.CloseWrite() }

// finish closes a TCP connection in order.
func (h *hostConn) finish() {
	_ = h.tcp.SetLinger(-1)
	_ = h.Close()
}

// errSocketFull tells the stack that it shall keep the rest.
var errSocketFull = errors.New("socket takes no more for now")

// socketWriter writes to a socket without waiting.
type socketWriter struct {
	fd   uintptr
	full bool
	err  error // of the socket
}

// Write implements io.Writer. It writes all of b or returns an error.
func (w *socketWriter) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := writeNow(w.fd, b[done:])
		done += n
		switch {
		case errors.Is(err, syscall.EAGAIN):
			w.full = true
			return done, errSocketFull
		case err != nil:
			w.err = err
			return done, err
		}
	}
	return done, nil
}
