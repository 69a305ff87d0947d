// SPDX-License-Identifier: Apache-2.0

package passfd

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

// A handed is a descriptor that a client handed over, after a look at it.
type handed struct {
	fd    int
	bound string // the path that it is bound to, if it is not connected
}

// badDescriptor says that a descriptor cannot carry frames.
func badDescriptor(format string, args ...any) error {
	return &proto.Error{Code: proto.BadDescriptor, Text: "the descriptor is " + fmt.Sprintf(format, args...)}
}

// examine checks that fd is a socket of transport t that leads to somebody. Its error is a *proto.Error. The client may have
// the same socket and change it at any time: what is found here spares it mistakes, nothing more depends on it.
func (s *Server) examine(fd int, t proto.Transport) (handed, error) {
	h := handed{fd: fd}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return h, badDescriptor("%s, and has to be a unix socket", fileKind(fd))
	}
	local, err := unix.Getsockname(fd)
	if err != nil {
		return h, badDescriptor("a socket of another family, and has to be a unix socket")
	}
	name, ok := local.(*unix.SockaddrUnix)
	if !ok {
		return h, badDescriptor("%s, and has to be a unix socket", familyOf(local))
	}
	if is := transportOf(kind); is != t {
		return h, badDescriptor("a unix socket of kind %q, and %q was asked for; say so with \"transport\"", is, t)
	}
	if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err == nil && n != 0 {
		return h, badDescriptor("a socket that listens, and has to be connected")
	}
	return s.examinePeer(h, t, name.Name)
}

// examinePeer checks whom h, which is bound to name unless that is empty, leads to.
func (s *Server) examinePeer(h handed, t proto.Transport, name string) (handed, error) {
	remote, err := unix.Getpeername(h.fd)
	switch {
	case err == nil:
	case !errors.Is(err, unix.ENOTCONN):
		return h, badDescriptor("a unix socket whose other end has gone")
	case t == proto.Stream:
		return h, badDescriptor("a stream socket that is not connected")
	case name == "" || name == "@": // as Linux's unnamed ones are read
		return h, badDescriptor("a datagram socket that is neither connected nor bound: nobody could reach it")
	default:
		h.bound = name
		return h, s.checkBound(h.bound)
	}
	if r, ok := remote.(*unix.SockaddrUnix); ok && slices.Contains(s.opts.Trust.Own, r.Name) || peercred.OfFD(h.fd).PID == s.self {
		return h, badDescriptor("connected to this daemon itself: its frames would go round")
	}
	return h, nil
}

// checkBound checks the path of a socket that is bound.
func (s *Server) checkBound(path string) error {
	switch {
	case slices.Contains(s.opts.Trust.Own, path):
		return badDescriptor("bound to the daemon's own path %q", path)
	case !filepath.IsAbs(path): // nobody could tell when the last one who may send to it has gone
		return badDescriptor("bound to %q: bind it to an absolute path", path)
	}
	return nil
}

// transportOf is the transport that a kind of socket carries. SOCK_SEQPACKET and others are none.
func transportOf(kind int) proto.Transport {
	switch kind {
	case unix.SOCK_DGRAM:
		return proto.Datagram
	case unix.SOCK_STREAM:
		return proto.Stream
	}
	return proto.Transport(fmt.Sprintf("socket type %d", kind))
}

// familyOf words the family of a socket that is no unix socket.
func familyOf(a unix.Sockaddr) string {
	switch a.(type) {
	case *unix.SockaddrInet4, *unix.SockaddrInet6:
		return "an internet socket"
	}
	return fmt.Sprintf("a socket of another family (%T)", a)
}

// fileKind words what a descriptor is that is no socket.
func fileKind(fd int) string {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "no socket"
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "a regular file"
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFIFO:
		return "a pipe"
	case unix.S_IFCHR, unix.S_IFBLK:
		return "a device"
	}
	return "no socket"
}
