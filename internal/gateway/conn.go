// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// bufSize holds the longest UDP datagram, and is a good size for a write to a TCP connection, in bytes.
const bufSize = 64 << 10

// buffers are lent to flows while they have something in hand, so that an idle flow costs none.
var buffers = sync.Pool{New: func() any { return new([bufSize]byte) }}

var errFlowReset = errors.New("connection reset")

// guestConn is the guest's end of a flow: an endpoint of the stack. Reading waits without holding a buffer.
type guestConn struct {
	ep       tcpip.Endpoint
	wq       *waiter.Queue
	readable <-chan struct{}
	writable <-chan struct{}
	rest     bytes.Reader // what write has left
}

// newGuest takes over the endpoint of a flow.
func newGuest(f *flow, wq *waiter.Queue, ep tcpip.Endpoint) *guestConn {
	g := &guestConn{ep: ep, wq: wq, readable: watch(wq, waiter.ReadableEvents), writable: watch(wq, waiter.WritableEvents)}
	if f.key.proto == header.TCPProtocolNumber {
		g.keepAlive(keepAliveIdle, keepAliveInterval)
	}
	if f.crowd {
		ep.SocketOptions().SetReceiveBufferSize(2*crowdBuffer, true)
		ep.SocketOptions().SetSendBufferSize(crowdBuffer, true)
	}
	f.guest.Store(g)
	return g
}

// watch returns a channel that says that one of the events, or the end, has come since.
func watch(wq *waiter.Queue, events waiter.EventMask) <-chan struct{} {
	entry, happened := waiter.NewChannelEntry(events | waiter.EventHUp | waiter.EventErr)
	wq.EventRegister(&entry)
	return happened
}

// next returns what arrived, in a buffer that the caller puts back. io.EOF is the orderly end.
func (g *guestConn) next() (*[bufSize]byte, int, error) {
	for {
		buf := buffers.Get().(*[bufSize]byte)
		w := tcpip.SliceWriter(buf[:])
		res, err := g.ep.Read(&w, tcpip.ReadOptions{})
		if err == nil {
			return buf, res.Count, nil
		}
		buffers.Put(buf)
		switch err.(type) {
		case *tcpip.ErrWouldBlock:
			<-g.readable
		case *tcpip.ErrClosedForReceive:
			return nil, 0, io.EOF
		default:
			return nil, 0, errFlowReset
		}
	}
}

// drainTo passes on what arrives until the orderly end, for which it returns nil. The host's socket takes it straight from the
// stack's memory; what it does not take waits there, and the guest's window closes.
func (g *guestConn) drainTo(h *hostConn) error {
	var w socketWriter
	var readErr tcpip.Error
	try := func(fd uintptr) bool {
		w = socketWriter{fd: fd}
		_, readErr = g.ep.Read(&w, tcpip.ReadOptions{})
		return !w.full
	}
	for {
		if err := h.raw.Write(try); err != nil {
			return err
		}
		if w.err != nil {
			return w.err
		}
		switch readErr.(type) {
		case nil:
		case *tcpip.ErrWouldBlock:
			<-g.readable
		case *tcpip.ErrClosedForReceive:
			return nil
		default:
			return errFlowReset
		}
	}
}

// write sends b to the guest, waiting while the stack has no room.
func (g *guestConn) write(b []byte) error {
	g.rest.Reset(b)
	for g.rest.Len() > 0 {
		_, err := g.ep.Write(&g.rest, tcpip.WriteOptions{})
		switch err.(type) {
		case nil:
		case *tcpip.ErrWouldBlock:
			<-g.writable
		default:
			return errFlowReset
		}
	}
	g.rest.Reset(nil)
	return nil
}

// offer sends a datagram. One that the stack has no room for, as while it looks for the guest, is lost as on any network:
// waiting would hold up other flows.
func (g *guestConn) offer(b []byte) {
	_, _ = g.ep.Write(bytes.NewReader(b), tcpip.WriteOptions{})
}

// close ends it; a TCP connection whose two sides have ended, in order.
func (g *guestConn) close() { g.ep.Close() }

// closeWrite ends our side of a TCP connection in order.
func (g *guestConn) closeWrite() { _ = g.ep.Shutdown(tcpip.ShutdownWrite) }

// abort resets the connection, and wakes the goroutines that wait on it.
func (g *guestConn) abort() {
	g.ep.Abort()
	g.wq.Notify(waiter.EventHUp | waiter.EventErr | waiter.ReadableEvents | waiter.WritableEvents)
}

// settle waits until the guest has confirmed the end of the connection and what was sent before it. A guest that reads slowly, or
// whose machine is paused for a while, loses nothing. One that has been silent for settleTime has gone, and the connection is
// reset. Until then it keeps its place among the guest's flows.
func (g *guestConn) settle() {
	heard, silent := g.heard(), time.Duration(0)
	for wait := time.Millisecond; silent < settleTime; wait = min(2*wait, time.Second) {
		switch tcp.EndpointState(g.ep.State()) {
		case tcp.StateFinWait1, tcp.StateClosing, tcp.StateLastAck:
		default:
			return
		}
		time.Sleep(wait)
		silent += wait
		if now := g.heard(); now != heard {
			heard, silent = now, 0
		}
	}
	g.abort()
}

// settleTime is what Linux gives to the end of a connection, too (tcp_fin_timeout).
const settleTime = time.Minute

// heard is how many segments of a TCP connection came from the guest.
func (g *guestConn) heard() uint64 {
	if s, ok := g.ep.Stats().(*tcp.Stats); ok {
		return s.SegmentsReceived.Value()
	}
	return 0
}

// A connection to a guest that has gone silently ends after about two and a half minutes.
const keepAliveIdle, keepAliveInterval = time.Minute, 10 * time.Second

// keepAlive has a TCP connection whose guest has said nothing for idle ask it each interval. It ends after nine questions.
func (g *guestConn) keepAlive(idle, interval time.Duration) {
	_ = g.ep.SetSockOpt(new(tcpip.KeepaliveIdleOption(idle)))
	_ = g.ep.SetSockOpt(new(tcpip.KeepaliveIntervalOption(interval)))
	g.ep.SocketOptions().SetKeepAlive(true)
}

// hostConn is the host's end of a flow. One goroutine reads and one writes.
type hostConn struct {
	net.Conn
	tcp   *net.TCPConn // nil for UDP
	raw   syscall.RawConn
	awake *awake

	// The result of one read, which try makes as soon as there is something. They are here because each call would put them on
	// the heap otherwise.
	try func(fd uintptr) bool
	buf *[bufSize]byte
	n   int
	err error
}

// newHostConn takes a connection over. A TCP connection ends with a reset unless finish was called, whatever ends the process: the
// other side shall not take what it got for all there was.
func newHostConn(c net.Conn, a *awake) *hostConn {
	h := &hostConn{Conn: c, awake: a}
	h.try = h.tryRead
	h.raw, _ = c.(syscall.Conn).SyscallConn()
	if h.tcp, _ = c.(*net.TCPConn); h.tcp != nil {
		_ = h.tcp.SetLinger(0)
	}
	return h
}

// next returns what arrived, in a buffer that the caller puts back. io.EOF is the orderly end of a TCP connection.
func (h *hostConn) next() (*[bufSize]byte, int, error) {
	h.awake.wait()
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
	h.n, _, h.err = receiveNow(fd, h.buf[:], nil)
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
		n, err := sendNow(w.fd, nil, b[done:])
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
