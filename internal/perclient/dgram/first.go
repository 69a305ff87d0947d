// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// FirstSender waits for the first datagram of conn, which is bound and was handed over, checks its sender's address and
// connects conn to it, so that only this client is served: by the system on Linux, by link.Datagram on macOS, which drops what
// others send. The datagram stays in the queue. Datagrams of senders that are not
// trusted are discarded, and those of sockets that are not giver's, the user who handed conn over: else root would send to what
// that user may not send to. If giver is root, only t decides. It returns the client's path; the error after ctx's end tells the
// last refusal, if there was one.
//
// Datagrams that others had sent before the connection was made, and behind the first one, stay in the queue as well: about ten,
// by those who could write to the socket, and a client could have sent the same itself.
func FirstSender(ctx context.Context, conn *net.UnixConn, t Trust, giver uint32) (path string, err error) {
	rc, err := conn.SyscallConn()
	if err != nil {
		return "", fmt.Errorf("get descriptor of datagram socket: %w", err)
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = conn.SetReadDeadline(time.Unix(1, 0))
	})
	_ = rc.Control(func(fd uintptr) { askSenders(int(fd), true) })
	defer func() { _ = rc.Control(func(fd uintptr) { askSenders(int(fd), false) }) }()
	var refusal error
	err = rc.Read(func(fd uintptr) bool {
		path, err = firstOf(ctx, int(fd), t, giver, &refusal)
		return path != "" || err != nil || ctx.Err() != nil
	})
	if !stop() { // the deadline is set, or will be at once; who waits once more has none
		<-ended
		_ = conn.SetReadDeadline(time.Time{})
		return "", errors.Join(context.Cause(ctx), refusal)
	}
	switch {
	case path != "":
		return path, nil
	case err != nil:
		return "", fmt.Errorf("wait for the first datagram: %w", err)
	}
	return "", errors.Join(context.Cause(ctx), refusal)
}

// firstOf looks at the datagrams that wait at fd until one of them has a sender that fd could be connected to, or until ctx is
// done: more may come for ever. Without one the path is empty and the error nil; refusal is then why the last one was not taken.
func firstOf(ctx context.Context, fd int, t Trust, giver uint32, refusal *error) (string, error) {
	var buf [1]byte
	var control [credentialLen]byte
	for ctx.Err() == nil {
		_, n, _, from, err := unix.RecvmsgBuffers(fd, [][]byte{buf[:]}, control[:], peekFlags)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return "", nil
		case err != nil:
			return "", err
		}
		a, _ := from.(*unix.SockaddrUnix)
		name := ""
		if a != nil {
			name = a.Name
		}
		if err = connectTo(fd, t, name, giver, senderIn(control[:n])); err == nil {
			return name, nil
		}
		*refusal = err
		if _, _, err := unix.Recvfrom(fd, buf[:], unix.MSG_DONTWAIT); err != nil && err != unix.EINTR && err != unix.EAGAIN {
			return "", err
		}
	}
	return "", nil
}

// connectTo connects fd to the socket at path, of which from has sent, if giver may have it sent to.
func connectTo(fd int, trust Trust, path string, giver uint32, from sender) error {
	t, err := trust.check(path)
	if err != nil {
		return err
	}
	defer t.close()
	if giver != 0 && t.uid != giver {
		err := fmt.Errorf("it belongs to user %d, and user %d handed the descriptor over", t.uid, giver)
		return &untrusted{Path: path, Reason: foreign, Err: err, Advice: adviceFor(foreign)}
	}
	if from.known && !from.is(t.uid) {
		return forgedBy(path, from, t.uid)
	}
	if t.pin.via == "" && !t.same() {
		return syscall.ENOENT
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: t.name()}); err != nil {
		return fmt.Errorf("connect to client %q: %w", path, err)
	}
	peer, err := unix.Getpeername(fd)
	if err != nil {
		return fmt.Errorf("connect to client %q: %w", path, err)
	}
	if a, ok := peer.(*unix.SockaddrUnix); !ok || a.Name != path || t.pin.via == "" && !t.same() {
		disconnect(fd)
		return fmt.Errorf("connect to client %q: %w", path, errElsewhere)
	}
	return nil
}
