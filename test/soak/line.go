// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/client"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
)

// A transport is a way in to the daemon.
type transport string

const (
	viaStream         transport = "stream"
	viaPath           transport = "path"           // connected, as vfkit's
	viaPathFree       transport = "path free"      // not connected, as QEMU's: it outlives the daemon
	viaAttachDgram    transport = "attach dgram"   // gets a descriptor
	viaAttachStream   transport = "attach stream"  // the same
	viaAdoptBare      transport = "adopt bare"     // hands one over, without a word
	viaAdoptDgram     transport = "adopt dgram"    // with a request and a lifeline
	viaAdoptStream    transport = "adopt stream"   // the same
	viaAdoptBound     transport = "adopt bound"    // hands a bound socket over, and connects to it
	viaAdoptForgets   transport = "adopt forgets"  // with a request, without a lifeline
	lineTimeout                 = 20 * time.Second // for a frame to be taken; an upgrade may lie in between
	sendPause                   = 200 * time.Microsecond
	quietEnd                    = 10 * time.Second // for the daemon to notice that a client has gone
	vfkitSendBuf                = 1 << 20
	vfkitReceiveBuf             = 4 << 20
	maxDatagram                 = 65550
	maxStreamToClient           = 32768
)

// transports are all of them.
var transports = []transport{
	viaStream, viaPath, viaPathFree, viaAttachDgram, viaAttachStream, viaAdoptBare, viaAdoptDgram, viaAdoptStream, viaAdoptBound,
	viaAdoptForgets,
}

// stream reports that frames have a prefix.
func (t transport) stream() bool {
	return t == viaStream || t == viaAttachStream || t == viaAdoptStream
}

// outlives reports that a client goes on when the daemon has been started again.
func (t transport) outlives() bool { return t == viaPathFree }

// maxFrame is the longest frame that clients receive, in bytes.
func (t transport) maxFrame() int {
	if t.stream() {
		return maxStreamToClient
	}
	return maxDatagram
}

// A line is a client's end of a connection to the daemon.
type line struct {
	via      transport
	conn     *net.UnixConn
	raw      syscall.RawConn
	to       *syscall.SockaddrUnix // the daemon's socket, if ours is not connected
	lifeline *os.File
	paths    []string // sockets that it has made
}

// A place is where a daemon is.
type place struct {
	socket string
	dir    string // for the clients' sockets
}

func (p place) dgram() string { return filepath.Join(p.socket+".d", "dgram", "sock") }

var pathNumber atomic.Uint64

func (p place) newPath(what string) string {
	return filepath.Join(p.dir, fmt.Sprintf("%s%d", what, pathNumber.Add(1)))
}

// dial connects to the daemon.
func (p place) dial(ctx context.Context, via transport) (*line, error) {
	x := &line{via: via}
	err := x.open(ctx, p)
	if err == nil {
		x.raw, err = x.conn.SyscallConn()
	}
	if err != nil {
		x.discard()
		return nil, fmt.Errorf("connect by %s: %w", via, err)
	}
	return x, nil
}

func (x *line) open(ctx context.Context, p place) error {
	switch x.via {
	case viaStream:
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
		if err != nil {
			return err
		}
		x.conn = c.(*net.UnixConn)
		return nil
	case viaPath:
		return x.bind(p.newPath("c"), p.dgram())
	case viaPathFree:
		x.to = &syscall.SockaddrUnix{Name: p.dgram()}
		return x.bind(p.newPath("f"), "")
	case viaAttachDgram:
		return x.attach(ctx, p, proto.Datagram)
	case viaAttachStream:
		return x.attach(ctx, p, proto.Stream)
	case viaAdoptBare:
		return x.adopt(ctx, p, unix.SOCK_DGRAM, nil)
	case viaAdoptDgram:
		return x.adopt(ctx, p, unix.SOCK_DGRAM, &proto.Request{Transport: proto.Datagram, Wait: true})
	case viaAdoptForgets:
		return x.adopt(ctx, p, unix.SOCK_DGRAM, &proto.Request{Transport: proto.Datagram})
	case viaAdoptStream:
		return x.adopt(ctx, p, unix.SOCK_STREAM, &proto.Request{Transport: proto.Stream, Wait: true})
	case viaAdoptBound:
		return x.adoptBound(ctx, p)
	}
	return fmt.Errorf("no transport is called %q", x.via)
}

// bind makes a datagram socket at path, connected to server unless that is empty.
func (x *line) bind(path, server string) error {
	local := &net.UnixAddr{Name: path, Net: "unixgram"}
	var err error
	if server == "" {
		x.conn, err = net.ListenUnixgram("unixgram", local)
	} else {
		x.conn, err = net.DialUnix("unixgram", local, &net.UnixAddr{Name: server, Net: "unixgram"})
	}
	if err != nil {
		_ = os.Remove(path) // it was bound before the connect failed
		return err
	}
	x.paths = append(x.paths, path)
	_ = x.conn.SetWriteBuffer(vfkitSendBuf)
	_ = x.conn.SetReadBuffer(vfkitReceiveBuf)
	if server != "" {
		_, err = x.conn.Write([]byte("VFKT"))
	}
	return err
}

func (x *line) attach(ctx context.Context, p place, t proto.Transport) error {
	a, err := client.Attach(ctx, p.socket, proto.Request{Transport: t})
	if err != nil {
		return err
	}
	x.lifeline = a.Lifeline
	return x.take(a.File)
}

// take makes a line of a connected socket.
func (x *line) take(f *os.File) error {
	c, err := net.FileConn(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	x.conn = c.(*net.UnixConn)
	return nil
}

func (x *line) adopt(ctx context.Context, p place, kind int, r *proto.Request) error {
	own, theirs, err := socketPair(kind)
	if err != nil {
		return err
	}
	a, err := client.Adopt(ctx, p.socket, theirs, r)
	if err := errors.Join(err, theirs.Close()); err != nil {
		return errors.Join(err, own.Close())
	}
	x.lifeline = a.Lifeline
	return x.take(own)
}

func (x *line) adoptBound(ctx context.Context, p place) error {
	server := p.newPath("b")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: server, Net: "unixgram"})
	if err != nil {
		return err
	}
	x.paths = append(x.paths, server)
	f, err := c.File()
	if err != nil {
		return errors.Join(err, c.Close())
	}
	a, err := client.Adopt(ctx, p.socket, f, &proto.Request{Transport: proto.Datagram, Wait: true})
	if err := errors.Join(err, f.Close(), c.Close()); err != nil {
		return err
	}
	x.lifeline = a.Lifeline
	return x.bind(server+"c", server)
}

func socketPair(kind int) (a, b *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	unix.CloseOnExec(fds[0])
	unix.CloseOnExec(fds[1])
	if kind == unix.SOCK_DGRAM && runtime.GOOS == "darwin" { // where they are 2 and 4 KiB, and the first one is the longest datagram
		_ = unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, vfkitSendBuf)
		_ = unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_RCVBUF, vfkitReceiveBuf)
	}
	return os.NewFile(uintptr(fds[0]), "client's end"), os.NewFile(uintptr(fds[1]), "daemon's end"), nil
}

// send sends frames, which b holds with prefixes. It waits until they are taken.
func (x *line) send(b []byte) error {
	if x.via.stream() {
		_ = x.conn.SetWriteDeadline(time.Now().Add(lineTimeout))
		_, err := x.conn.Write(b)
		return err
	}
	for len(b) > 0 {
		n := 4 + int(binary.BigEndian.Uint32(b))
		if err := x.datagram(b[4:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// datagram sends one datagram. The system does not tell a sender that is not connected when there is room: it tries again.
func (x *line) datagram(b []byte) error {
	deadline := time.Now().Add(lineTimeout)
	for {
		var err error
		closed := x.raw.Write(func(fd uintptr) bool {
			if x.to != nil {
				err = syscall.Sendto(int(fd), b, 0, x.to)
			} else {
				_, err = syscall.Write(int(fd), b)
			}
			return true
		})
		switch {
		case closed != nil:
			return closed
		case !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.ENOBUFS) && !errors.Is(err, syscall.EINTR):
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("send datagram of %d bytes: not taken for %s: %w", len(b), lineTimeout, os.ErrDeadlineExceeded)
		}
		time.Sleep(sendPause)
	}
}

// read hands what comes to receive until the line ends.
func (x *line) read(receive func(f []byte)) error {
	if x.via.stream() {
		return x.readStream(receive)
	}
	b := make([]byte, maxDatagram+1)
	for {
		n, err := x.conn.Read(b)
		if err != nil {
			return err
		}
		receive(b[:n])
	}
}

// unread is how many bytes wait in our direction; unsent how many of ours nobody has read yet.
func (x *line) unread() (int, error) { return x.ask(askUnread) }
func (x *line) unsent() (int, error) { return x.ask(askUnsent) }

func (x *line) ask(request uint) (n int, err error) {
	if cerr := x.raw.Control(func(fd uintptr) { n, err = queued(int(fd), request) }); cerr != nil {
		return 0, cerr
	}
	return n, err
}

// unlink removes the paths of the line.
func (x *line) unlink() {
	for _, p := range x.paths {
		_ = os.Remove(p)
	}
	x.paths = nil
}

// discard closes everything, and leaves the paths where they are.
func (x *line) discard() {
	if x.conn != nil {
		_ = x.conn.Close()
	}
	if x.lifeline != nil {
		_ = x.lifeline.Close()
	}
}
