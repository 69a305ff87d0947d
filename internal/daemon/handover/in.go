// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
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

// Take takes descriptors over for a caller that needs no more than the numbers: all of them, or none.
func (i *In) Take(fds ...int) error {
	for n, fd := range fds {
		if !i.left[fd] || slices.Contains(fds[:n], fd) {
			return fmt.Errorf("take descriptor %d over: it was not handed over, or is taken already", fd)
		}
	}
	for _, fd := range fds {
		delete(i.left, fd)
	}
	return nil
}

// Socket takes descriptor fd over as hostfs.Socket does. The socket's own descriptor has another number.
func Socket[T io.Closer](i *In, fd int) (t T, err error) {
	f, err := i.File(fd)
	if err != nil {
		return t, err
	}
	defer func() { _ = f.Close() }() // the socket has a duplicate
	if t, err = hostfs.Socket[T](f); err != nil {
		return t, fmt.Errorf("take descriptor %d over: %w", fd, err)
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

// own makes all descriptors of the manifest ours: children shall not inherit them. One that is not open cannot be taken.
func (i *In) own() {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for _, fd := range i.m.FDs {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err == nil {
			i.left[fd] = true
		}
	}
}
