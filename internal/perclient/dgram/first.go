// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
)

// FirstSender waits for the first datagram of conn, which is bound and was handed over, checks its sender's address and
// connects conn to it, so that only this client is served: by the system on Linux, by link.Datagram on macOS, which drops what
// others send. The datagram stays in the queue. Datagrams of senders that are not
// trusted are discarded and told to r, and those of sockets that are not giver's, the user that handed conn over: else root would send
// to what that user may not send to. If giver is nil, which is root, only t decides. It returns the client's path; the error after conn's read
// deadline tells the last refusal, if there was one.
//
// Datagrams that others had sent before the connection was made, and behind the first one, stay in the queue as well: about ten,
// by those that could write to the socket, and a client could have sent the same itself.
func FirstSender(conn *net.UnixConn, t Trust, giver *link.User, r *Refusals) (path string, err error) {
	rc, err := conn.SyscallConn()
	if err != nil {
		return "", fmt.Errorf("get descriptor of datagram socket: %w", err)
	}
	_ = rc.Control(func(fd uintptr) { _ = askSenders(int(fd), true) })
	defer func() { _ = rc.Control(func(fd uintptr) { _ = askSenders(int(fd), false) }) }()
	var refusal error
	for { // one datagram at a time: Read looks at the deadline, and more may come for ever
		var no error
		poll := rc.Read(func(fd uintptr) bool {
			path, no, err = firstOf(int(fd), func(path string, from sender) error { return connectTo(int(fd), t, path, giver, from) })
			return err != unix.EAGAIN
		})
		if no != nil {
			refusal = no
			r.tell(untrustedBy("", no), 1)
		}
		switch {
		case poll != nil:
			return "", errors.Join(poll, refusal)
		case err != nil && err != unix.EINTR:
			return "", err
		case path != "":
			return path, nil
		}
	}
}

// Unserved is why nothing that waits at fd, which is bound and was handed over, would be served by FirstSender; nil if something would,
// or if nothing waits. What would not is discarded and told to r.
func Unserved(fd int, t Trust, giver *link.User, r *Refusals) (refusal error) {
	for range lastReceives {
		path, no, err := firstOf(fd, func(path string, from sender) error {
			is, err := t.ofSender(path, giver, from)
			if err == nil {
				is.pin.Close()
			}
			return err
		})
		switch {
		case no != nil:
			refusal = no
			r.tell(untrustedBy("", no), 1)
		case path != "":
			return nil
		case err != nil && err != unix.EINTR:
			return refusal
		}
	}
	return refusal
}

// firstOf looks at the datagram that waits at fd, and has use serve its sender, or discards it if that has a refusal. What fd was
// connected to by mistake alone could send to it from then on: that is an error.
func firstOf(fd int, use func(path string, from sender) error) (path string, refusal, err error) {
	var buf [1]byte
	var control [credentialLen]byte
	_, n, _, from, err := unix.RecvmsgBuffers(fd, [][]byte{buf[:]}, control[:], peekFlags)
	if err != nil {
		return "", nil, err
	}
	if a, ok := from.(*unix.SockaddrUnix); ok {
		path = a.Name
	}
	switch refusal = use(path, senderIn(control[:n])); {
	case errors.Is(refusal, errElsewhere):
		return "", nil, refusal
	case refusal != nil:
		_, _, err = unix.Recvfrom(fd, buf[:], unix.MSG_DONTWAIT)
		return "", refusal, err
	}
	return path, nil, nil
}

// ofSender is the socket at path, of which from has sent, if giver may have it sent to.
func (t Trust) ofSender(path string, giver *link.User, from sender) (*target, error) {
	is, err := t.check(path)
	switch {
	case err != nil:
		return nil, err
	case giver != nil && is.uid != giver.UID:
		err = refuse(path, foreign, fmt.Errorf("it belongs to user %d, and user %d handed the descriptor over", is.uid, giver.UID))
	case from.known && !from.is(is.uid):
		err = forgedBy(path, from, is.uid)
	default:
		return is, nil
	}
	is.pin.Close()
	return nil, err
}

// connectTo connects fd to the socket at path, of which from has sent, if giver may have it sent to.
func connectTo(fd int, trust Trust, path string, giver *link.User, from sender) error {
	t, err := trust.ofSender(path, giver, from)
	if err != nil {
		return err
	}
	defer t.pin.Close()
	if !t.usable() {
		return unix.ENOENT
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: string(t.to)}); err != nil {
		return fmt.Errorf("connect to client %q: %w", path, err)
	}
	peer, err := unix.Getpeername(fd)
	if err != nil {
		return fmt.Errorf("connect to client %q: %w", path, err)
	}
	if a, ok := peer.(*unix.SockaddrUnix); !ok || a.Name != path || !t.usable() {
		return fmt.Errorf("connect to client %q: %w", path, errElsewhere)
	}
	return nil
}
