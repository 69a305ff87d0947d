// SPDX-License-Identifier: Apache-2.0

package unixgram

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
// connects conn to it, so that only this client is served. The datagram stays in the queue. Datagrams of senders that are not
// trusted are discarded. It returns the client's path; the error after ctx's end tells the last refusal, if there was one.
//
// Datagrams that others had sent before the connection was made, and behind the first one, stay in the queue as well.
func FirstSender(ctx context.Context, conn *net.UnixConn, t Trust) (path string, err error) {
	rc, err := conn.SyscallConn()
	if err != nil {
		return "", fmt.Errorf("get descriptor of datagram socket: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	var refusal error
	err = rc.Read(func(fd uintptr) bool {
		path, err = firstOf(int(fd), t, &refusal)
		return path != "" || err != nil || ctx.Err() != nil
	})
	if !stop() { // the deadline is set, or will be at once
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

// firstOf looks at the datagrams that wait at fd until one of them has a sender that fd could be connected to. Without one
// the path is empty and the error nil; refusal is then why the last one was not taken.
func firstOf(fd int, t Trust, refusal *error) (string, error) {
	var buf [1]byte
	for {
		_, _, _, from, err := unix.RecvmsgBuffers(fd, [][]byte{buf[:]}, nil, unix.MSG_PEEK|unix.MSG_DONTWAIT)
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
		if err = connectTo(fd, t, name); err == nil {
			return name, nil
		}
		*refusal = err
		if _, _, err := unix.Recvfrom(fd, buf[:], unix.MSG_DONTWAIT); err != nil && err != unix.EINTR && err != unix.EAGAIN {
			return "", err
		}
	}
}

// connectTo connects fd to the socket at path if it may be sent to.
func connectTo(fd int, trust Trust, path string) error {
	t, err := trust.Check(path)
	if err != nil {
		return err
	}
	defer t.Close()
	if t.pin.via == "" && !t.Same() {
		return syscall.ENOENT
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: t.name()}); err != nil {
		return fmt.Errorf("connect to client %q: %w", path, err)
	}
	peer, err := unix.Getpeername(fd)
	if err != nil {
		return fmt.Errorf("connect to client %q: %w", path, err)
	}
	if a, ok := peer.(*unix.SockaddrUnix); !ok || a.Name != path || t.pin.via == "" && !t.Same() {
		disconnect(fd)
		return fmt.Errorf("connect to client %q: %w", path, errElsewhere)
	}
	return nil
}
