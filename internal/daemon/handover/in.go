// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"encoding/json"
	"errors"
	"fmt"
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

// From is the version of the image before this one.
func (i *In) From() string { return i.m.From }

// Get reads a section into v. errNoSection: there is none.
func (i *In) Get(section string, v any) error {
	raw, ok := i.m.Sections[section]
	if !ok {
		return fmt.Errorf("section %s: %w", section, errNoSection)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("read section %s of the manifest: %w", section, err)
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
func (i *In) UnixConn(fd int) (*net.UnixConn, error) {
	f, err := i.File(fd)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // the connection has a duplicate
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("take descriptor %d over as a connection: %w", fd, err)
	}
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("take descriptor %d over as a connection: it is no unix socket", fd), c.Close())
	}
	return uc, nil
}

// UnixListener takes descriptor fd over as a listening unix socket. Its Close leaves the path alone. The listener's own
// descriptor has another number.
func (i *In) UnixListener(fd int) (*net.UnixListener, error) {
	ul, err := listener[*net.UnixListener](i, fd, "unix")
	if err == nil {
		ul.SetUnlinkOnClose(false)
	}
	return ul, err
}

// TCPListener takes descriptor fd over as a listening TCP socket. The listener's own descriptor has another number.
func (i *In) TCPListener(fd int) (*net.TCPListener, error) {
	return listener[*net.TCPListener](i, fd, "TCP")
}

// listener takes descriptor fd over as a listener of type L, whose kind of socket is named for errors. After an error it is the
// zero L.
func listener[L net.Listener](i *In, fd int, kind string) (l L, err error) {
	f, err := i.File(fd)
	if err != nil {
		return l, err
	}
	defer func() { _ = f.Close() }() // the listener has a duplicate
	ln, err := net.FileListener(f)
	if err != nil {
		return l, fmt.Errorf("take descriptor %d over as a listener: %w", fd, err)
	}
	l, ok := ln.(L)
	if !ok {
		return l, errors.Join(fmt.Errorf("take descriptor %d over as a listener: it is no %s socket", fd, kind), ln.Close())
	}
	return l, nil
}

// CloseRest closes what nobody took.
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
	}
	i.left = make(map[int]bool, len(i.m.FDs))
	for _, fd := range i.m.FDs {
		i.left[fd] = true
	}
	return nil
}
