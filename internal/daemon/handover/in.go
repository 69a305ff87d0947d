// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// An In is what the image before this one handed over. It is for one goroutine.
type In struct {
	m    manifest
	left map[int]bool // not taken yet
}

// Get reads the state that was handed over into v.
func (i *In) Get(v any) error {
	if err := json.Unmarshal(i.m.State, v); err != nil {
		return fmt.Errorf("read the state in the manifest: %w", err)
	}
	return nil
}

// File takes descriptor fd over: it belongs to the caller from here on, and children do not inherit it. Each can be taken
// once.
func (i *In) File(fd int) (*os.File, error) {
	if err := i.Take(fd); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("descriptor %d", fd)), nil
}

// Take is File for a caller that needs no more than the number.
func (i *In) Take(fd int) error {
	if !i.left[fd] {
		return fmt.Errorf("take descriptor %d over: it was not handed over, or is taken already", fd)
	}
	delete(i.left, fd)
	return nil
}

// UnixConn takes descriptor fd over as a unix socket, whatever its type and whether or not it is connected. The
// connection's own descriptor has another number.
func (i *In) UnixConn(fd int) (*net.UnixConn, error) { return take[*net.UnixConn](i, fd, net.FileConn) }

// UnixListener takes descriptor fd over as a listening unix socket. Its Close leaves the path alone. The listener's own
// descriptor has another number.
func (i *In) UnixListener(fd int) (*net.UnixListener, error) {
	l, err := take[*net.UnixListener](i, fd, net.FileListener)
	if err == nil {
		l.SetUnlinkOnClose(false)
	}
	return l, err
}

// TCPListener takes descriptor fd over as a listening TCP socket. The listener's own descriptor has another number.
func (i *In) TCPListener(fd int) (*net.TCPListener, error) {
	return take[*net.TCPListener](i, fd, net.FileListener)
}

// take makes a T of descriptor fd by from. After an error it is the zero T.
func take[T any, S io.Closer](i *In, fd int, from func(*os.File) (S, error)) (t T, err error) {
	f, err := i.File(fd)
	if err != nil {
		return t, err
	}
	defer func() { _ = f.Close() }() // the socket has a duplicate
	s, err := from(f)
	if err != nil {
		return t, fmt.Errorf("take descriptor %d over: %w", fd, err)
	}
	t, ok := any(s).(T)
	if !ok {
		return t, errors.Join(fmt.Errorf("take descriptor %d over: it is no %T", fd, t), s.Close())
	}
	return t, nil
}

// CloseRest closes what was not taken.
func (i *In) CloseRest() {
	for fd := range i.left {
		_ = unix.Close(fd)
	}
	i.left = nil
}

// own makes all descriptors of the manifest ours: children shall not inherit them.
func (i *In) own() error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for _, fd := range i.m.FDs {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
			return fmt.Errorf("descriptor %d, which the manifest lists, is not open: %w", fd, err)
		}
		i.left[fd] = true
	}
	return nil
}
