// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"
)

const (
	// MaxDatagramLen is the longest frame that libkrun has room for, in bytes.
	MaxDatagramLen = 65550

	// sendPause is how long libkrun and vmnet-helper wait before they try a datagram again that was not taken.
	sendPause = 50 * time.Microsecond
)

// datagramLink is a datagram socket with one frame in each datagram and no prefix.
type datagramLink struct {
	socketLink
	raw   syscall.RawConn
	to    syscall.Sockaddr // nil: the socket is connected, and the system takes nothing from others
	local string           // what Close removes, "" for nothing
}

// DatagramLink carries frames over a connected datagram socket, such as one end of a socket pair. It takes conn over. Such a
// link does not notice that its other side has gone before it sends.
func DatagramLink(conn *net.UnixConn) (Link, error) { return newDatagramLink(conn) }

func newDatagramLink(conn *net.UnixConn) (*datagramLink, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &datagramLink{socketLink: socketLink{conn: conn, max: MaxDatagramLen, next: conn.Read}, raw: raw}, nil
}

// PathOptions describe a client of a daemon's datagram socket.
type PathOptions struct {
	Server string // the daemon's socket
	Local  string // the client's own, which it makes and removes
	// Connected: the socket is connected to the daemon's, as vfkit's and libkrun's, and takes datagrams from no other. It
	// does not outlive the daemon. Otherwise it is as QEMU's netdev dgram: any process may send to it, and it goes on when a daemon
	// comes back.
	Connected bool
	// Hello: the first datagram is vfkit's VFKT.
	Hello bool
}

// The buffers that vfkit asks for, in bytes. QEMU leaves the system's. Those of macOS are 2 KiB, which is the longest datagram,
// and 4 KiB (xnu, bsd/kern/uipc_usrreq.c): too small for guests that send any frame, or many at once.
const (
	vfkitSendBuffer    = 1 << 20
	vfkitReceiveBuffer = 4 << 20
)

// PathLink carries frames over a datagram socket with a name. A connected one waits until ctx is done for a daemon to be
// there.
func PathLink(ctx context.Context, o PathOptions) (Link, error) {
	conn, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	l, err := newDatagramLink(conn)
	if err != nil {
		return nil, err
	}
	l.local = o.Local
	if o.Connected || runtime.GOOS == "darwin" {
		_ = conn.SetWriteBuffer(vfkitSendBuffer)
		_ = conn.SetReadBuffer(vfkitReceiveBuffer)
	}
	if !o.Connected {
		l.to = &syscall.SockaddrUnix{Name: o.Server}
		l.next = func(f []byte) (int, error) {
			n, from, err := conn.ReadFromUnix(f)
			if err == nil && from != nil && from.Name != o.Server { // one without a name is the daemon's as well
				err = fmt.Errorf("read datagram of %d bytes from %q instead of %q: %w", n, from.Name, o.Server, ErrBadFrame)
			}
			return n, err
		}
	}
	if o.Hello {
		if err := l.send([]byte("VFKT")); err != nil {
			_ = l.Close()
			return nil, fmt.Errorf("send hello to %s: %w", o.Server, err)
		}
	}
	return l, nil
}

func (o *PathOptions) open(ctx context.Context) (*net.UnixConn, error) {
	local := &net.UnixAddr{Name: o.Local, Net: "unixgram"}
	if !o.Connected {
		_ = os.Remove(o.Local) // as QEMU does
		return net.ListenUnixgram("unixgram", local)
	}
	for {
		conn, err := net.DialUnix("unixgram", local, &net.UnixAddr{Name: o.Server, Net: "unixgram"})
		if err == nil {
			return conn, nil
		}
		// The name was bound before the connect failed, unless another process had bound it.
		if !errors.Is(err, syscall.EADDRINUSE) {
			_ = os.Remove(o.Local)
		}
		if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to %s: %w", o.Server, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (l *datagramLink) Send(frames ...[]byte) error {
	for _, f := range frames {
		if err := l.send(f); err != nil {
			return err
		}
	}
	return nil
}

// send waits for room by trying again: the system does not tell a sender that is not connected when there is some.
func (l *datagramLink) send(f []byte) error {
	var deadline time.Time
	for {
		err := l.try(f)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOBUFS):
			switch now := time.Now(); {
			case deadline.IsZero():
				deadline = now.Add(writeTimeout)
			case now.After(deadline):
				return fmt.Errorf("send datagram of %d bytes: not taken for %s: %w", len(f), writeTimeout, os.ErrDeadlineExceeded)
			}
			time.Sleep(sendPause)
		default:
			err = fmt.Errorf("send datagram of %d bytes: %w", len(f), err)
			if l.to == nil && peerGone(err) {
				l.gone.CompareAndSwap(nil, &err)
				_ = l.conn.Close()
			}
			return err
		}
	}
}

// try makes one attempt, without waiting.
func (l *datagramLink) try(f []byte) (err error) {
	closed := l.raw.Write(func(fd uintptr) bool {
		if l.to != nil {
			err = syscall.Sendto(int(fd), f, 0, l.to)
		} else {
			_, err = syscall.Write(int(fd), f)
		}
		return true
	})
	if closed != nil {
		return closed
	}
	return err
}

// peerGone reports whether a connected socket has lost its other side for good. The last two are macOS's, as of package link's
// isGone.
func peerGone(err error) bool {
	gone := []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ENOTCONN, syscall.EPIPE, syscall.EDESTADDRREQ, syscall.EINVAL}
	return slices.ContainsFunc(gone, func(e error) bool { return errors.Is(err, e) })
}

func (l *datagramLink) Close() error {
	err := l.socketLink.Close()
	if l.local != "" {
		_ = os.Remove(l.local)
	}
	return err
}
