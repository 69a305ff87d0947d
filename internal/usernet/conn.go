// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
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
	net.Conn // for writing, deadlines and addresses
	ep       tcpip.Endpoint
	entry    waiter.Entry
	wq       *waiter.Queue
	readable <-chan struct{}
	tcp      *gonet.TCPConn // nil for UDP
}

func newGuestTCP(wq *waiter.Queue, ep tcpip.Endpoint) *guestConn {
	c := gonet.NewTCPConn(wq, ep)
	g := &guestConn{Conn: c, tcp: c, ep: ep, wq: wq}
	g.watch()
	return g
}

func newGuestUDP(wq *waiter.Queue, ep tcpip.Endpoint) *guestConn {
	g := &guestConn{Conn: gonet.NewUDPConn(wq, ep), ep: ep, wq: wq}
	g.watch()
	return g
}

func (g *guestConn) watch() {
	g.entry, g.readable = waiter.NewChannelEntry(waiter.ReadableEvents | waiter.EventHUp | waiter.EventErr)
	g.wq.EventRegister(&g.entry)
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

// offer sends a datagram. One that the stack has no room for, as while it looks for the guest, is lost as on any network:
// waiting would hold up other flows.
func (g *guestConn) offer(b []byte) {
	_, _ = g.ep.Write(bytes.NewReader(b), tcpip.WriteOptions{})
}

// closeWrite ends our side of a TCP connection in order.
func (g *guestConn) closeWrite() { _ = g.tcp.CloseWrite() }

// abort resets the connection, and wakes whoever waits on it.
func (g *guestConn) abort() {
	g.ep.Abort()
	g.wq.Notify(waiter.EventHUp | waiter.EventErr | waiter.ReadableEvents | waiter.WritableEvents)
}

// settle waits until the guest has confirmed the end of the connection, so that one that never does keeps its place among
// the guest's flows, and resets the connection after some seconds.
func (g *guestConn) settle(ctx context.Context) {
	for wait := time.Millisecond; wait < 5*time.Second; wait *= 2 {
		switch tcp.EndpointState(g.ep.State()) {
		case tcp.StateFinWait1, tcp.StateClosing, tcp.StateLastAck:
		default:
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			g.abort()
			return
		}
	}
	g.abort()
}

// close frees the endpoint. A TCP connection whose two sides have ended is closed in order.
func (g *guestConn) close() {
	g.wq.EventUnregister(&g.entry)
	_ = g.Close()
}

// hostConn is the host's end of a flow.
type hostConn struct {
	net.Conn
	raw syscall.RawConn // nil if the connection has no file descriptor
}

func newHostConn(c net.Conn) *hostConn {
	h := &hostConn{Conn: c}
	if sc, ok := c.(syscall.Conn); ok {
		h.raw, _ = sc.SyscallConn()
	}
	return h
}

// next returns what arrived, in a buffer that the caller puts back. io.EOF is the orderly end of a TCP connection.
func (h *hostConn) next(stream bool) (*[bufSize]byte, int, error) {
	if h.raw == nil {
		buf := buffers.Get().(*[bufSize]byte)
		n, err := h.Read(buf[:])
		if err != nil {
			buffers.Put(buf)
			return nil, 0, err
		}
		return buf, n, nil
	}
	var buf *[bufSize]byte
	var n int
	var readErr error
	err := h.raw.Read(func(fd uintptr) bool {
		buf = buffers.Get().(*[bufSize]byte)
		for {
			n, readErr = syscall.Read(int(fd), buf[:])
			if readErr != syscall.EINTR {
				break
			}
		}
		if readErr == nil {
			return true
		}
		buffers.Put(buf)
		buf = nil
		return readErr != syscall.EAGAIN
	})
	switch {
	case err != nil:
		return nil, 0, err
	case readErr != nil:
		return nil, 0, readErr
	case n == 0 && stream:
		buffers.Put(buf)
		return nil, 0, io.EOF
	}
	return buf, n, nil
}

// closeWrite ends our side of a TCP connection in order.
func (h *hostConn) closeWrite() {
	if c, ok := h.Conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
}

// abort closes the connection with a reset where it can, and wakes whoever waits on it.
func (h *hostConn) abort() {
	if c, ok := h.Conn.(interface{ SetLinger(int) error }); ok {
		_ = c.SetLinger(0)
	}
	_ = h.Close()
}

// setKeepAlive lets a TCP connection to a guest that has gone silently end after about two and a half minutes.
func setKeepAlive(ep tcpip.Endpoint) {
	idle, interval := tcpip.KeepaliveIdleOption(time.Minute), tcpip.KeepaliveIntervalOption(10*time.Second)
	_ = ep.SetSockOpt(&idle)
	_ = ep.SetSockOpt(&interval)
	ep.SocketOptions().SetKeepAlive(true)
}
