// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

// An endpoint is the end of the machine's link that the daemon is to have. A copy is kept as long as this process lives: the next
// daemon gets it. Then it is closed, and the machine learns that it is not served.
type endpoint struct {
	file   *os.File
	socket string // path that file is bound to and that is removed at the end; empty for --fd
	lock   *os.File
}

// open takes the descriptor that was inherited or binds the socket.
func open(ctx context.Context, c *config, log *logger) (*endpoint, error) {
	if c.socket == "" {
		return inherit(c.fd)
	}
	// Absolute if that fits: the daemon looks whether the path is still there.
	if path, err := filepath.Abs(c.socket); err == nil && len(path) <= compat.MaxSocketPath {
		c.socket = path
	}
	e := &endpoint{socket: c.socket}
	var err error
	if e.lock, err = takeLock(ctx, c.socket+".lock", log); err != nil {
		return nil, err
	}
	log.debug("created lockfile %q", e.lock.Name())
	if e.file, err = bind(c.socket); err != nil {
		e.socket = "" // whatever is there is not ours
		e.close(log)
		return nil, err
	}
	log.debug("created socket %q", c.socket)
	return e, nil
}

// inherit takes descriptor fd.
func inherit(fd int) (*endpoint, error) {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return nil, fmt.Errorf("--fd %d: %w: it must be one end of a connected pair of datagram sockets", fd, err)
	}
	if kind != unix.SOCK_DGRAM {
		return nil, fmt.Errorf("--fd %d: no datagram socket: make the pair with SOCK_DGRAM", fd)
	}
	unix.CloseOnExec(fd)
	proto.SetBuffers(fd, proto.Datagram)
	return &endpoint{file: os.NewFile(uintptr(fd), fmt.Sprintf("--fd %d", fd))}, nil
}

// shut reports whether the socket was shut down, which all copies of it share.
func (e *endpoint) shut() bool {
	fds := []unix.PollFd{{Fd: int32(e.file.Fd()), Events: unix.POLLOUT}}
	for {
		if _, err := unix.Poll(fds, 0); err != unix.EINTR {
			return err == nil && fds[0].Revents&unix.POLLHUP != 0
		}
	}
}

// close gives back what is left.
func (e *endpoint) close(log *logger) {
	if e.file != nil {
		e.file.Close()
	}
	if e.socket != "" {
		log.debug("remove socket %q", e.socket)
		os.Remove(e.socket)
	}
	if e.lock != nil {
		os.Remove(e.lock.Name()) // while it is held
		e.lock.Close()
	}
}

// lockPatience is how long the helper before may take to end, which has been told to: stop and start follow each other at once in a
// driver's restart. lockPause is the time between two looks.
const (
	lockPatience = 3 * time.Second
	lockPause    = 10 * time.Millisecond
)

// takeLock takes path's lock for the life of this process: two helpers on one socket would be a mistake.
func takeLock(ctx context.Context, path string, log *logger) (*os.File, error) {
	for began, told := time.Now(), false; ; told = true {
		f, err := hostfs.Place{Name: path}.Lock(unix.O_CREAT, func(hostfs.Node) error { return nil })
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, unix.EAGAIN):
			return nil, fmt.Errorf("open lock %s: %w", path, err)
		case time.Since(began) >= lockPatience:
			return nil, fmt.Errorf("lock %s: %w: another vmnet-helper serves this socket", path, err)
		case !told:
			log.info("waiting for another vmnet-helper to leave %q", path)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockPause):
		}
	}
}

// bind makes a datagram socket at path for this user alone. What a helper before has left there is removed; anything but a
// socket is not.
func bind(path string) (*os.File, error) {
	if st, err := os.Lstat(path); err == nil {
		if st.Mode().Type() != fs.ModeSocket {
			return nil, fmt.Errorf("%s is there already and is not a socket: remove it or choose another path", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove stale socket: %w", err)
		}
	}
	fd, err := hostfs.NewSocket(unix.SOCK_DGRAM)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	proto.SetBuffers(fd, proto.Datagram)
	if err := hostfs.BindPrivate(fd, path); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("bind %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}
