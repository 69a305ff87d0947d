// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// FirstSender waits for the first datagram of conn, which is bound and was handed over, checks its sender's address and
// connects conn to it, so that only this client is served: by the system on Linux, by link.Datagram on macOS, which drops what
// others send. The datagram stays in the queue. Datagrams of senders that are not
// trusted are discarded, and those of sockets that are not giver's, the user that handed conn over: else root would send to what
// that user may not send to. If giver is root, only t decides. It returns the client's path; the error after conn's read deadline tells
// the last refusal, if there was one.
//
// Datagrams that others had sent before the connection was made, and behind the first one, stay in the queue as well: about ten,
// by those that could write to the socket, and a client could have sent the same itself.
func FirstSender(conn *net.UnixConn, t Trust, giver uint32) (path string, err error) {
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
			path, no, err = firstOf(int(fd), t, giver)
			return err != unix.EAGAIN
		})
		if no != nil {
			refusal = no
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

// firstOf looks at the datagram that waits at fd, and connects fd to its sender, or discards it if that has a refusal. What fd was
// connected to by mistake alone could send to it from then on: that is an error.
func firstOf(fd int, t Trust, giver uint32) (path string, refusal, err error) {
	var buf [1]byte
	var control [credentialLen]byte
	_, n, _, from, err := unix.RecvmsgBuffers(fd, [][]byte{buf[:]}, control[:], peekFlags)
	if err != nil {
		return "", nil, err
	}
	if a, ok := from.(*unix.SockaddrUnix); ok {
		path = a.Name
	}
	switch refusal = connectTo(fd, t, path, giver, senderIn(control[:n])); {
	case errors.Is(refusal, errElsewhere):
		return "", nil, refusal
	case refusal != nil:
		_, _, err = unix.Recvfrom(fd, buf[:], unix.MSG_DONTWAIT)
		return "", refusal, err
	}
	return path, nil, nil
}

// connectTo connects fd to the socket at path, of which from has sent, if giver may have it sent to.
func connectTo(fd int, trust Trust, path string, giver uint32, from sender) error {
	t, err := trust.check(path)
	if err != nil {
		return err
	}
	defer t.pin.Close()
	switch {
	case giver != 0 && t.uid != giver:
		return refuse(path, foreign, fmt.Errorf("it belongs to user %d, and user %d handed the descriptor over", t.uid, giver))
	case from.known && !from.is(t.uid):
		return forgedBy(path, from, t.uid)
	case !t.usable():
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
