// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockWait is how long a daemon waits for one that is stopping: the socket is gone and the lock not yet free.
	// Stopping takes at most 2 s.
	lockWait = 3 * time.Second
	lockPoll = 20 * time.Millisecond

	// backlog asks for the system's maximum: both kernels cut it down to kern.ipc.somaxconn or net.core.somaxconn.
	backlog = 1<<16 - 1
)

// errInUse is the answer to anything at SOCKET that is not ours to remove.
var errInUse = newTextError("bind", syscall.EADDRINUSE)

// A SocketLock owns a socket path for the life of the daemon, through a locked file SOCKET.lock beside it. Nothing is bound,
// probed or removed at the path without it. RemoveIfOurs may be called at any time; all else is for one goroutine.
type SocketLock struct {
	path string
	log  *slog.Logger
	f    *os.File // of SOCKET.lock

	mu   sync.Mutex
	mine os.FileInfo // of the socket from Bind to RemoveIfOurs, else nil
}

// LockSocket claims path. It fails with "bind: Address already in use", with nothing touched, if there is anything but a
// socket at path, if a daemon listens there, or if another daemon has the lock. While the lock is taken and nothing is at
// path, its holder is stopping or starting, and LockSocket waits up to 3 s for what comes of it. A stale socket stays until
// Bind.
func LockSocket(ctx context.Context, path string, log *slog.Logger) (*SocketLock, error) {
	if len(path) > maxSocketPath {
		return nil, &textError{Lines: []string{"the socket path is too long: " + strconv.Itoa(len(path))}, Err: syscall.ENAMETOOLONG}
	}
	if path == "" {
		return nil, newTextError("bind", syscall.ENOENT)
	}
	if _, err := socketAt(path); err != nil {
		return nil, err
	}
	l := &SocketLock{path: path, log: log}
	if err := l.lock(ctx); err != nil {
		return nil, err
	}
	if _, err := l.stale(); err != nil {
		l.Unlock()
		return nil, err
	}
	return l, nil
}

// Bind makes the socket: a stale one is removed, the new one bound with no access for others, given to o, and only then
// made to listen, so that nobody connects who may not. The umask of the process is changed for a moment. The caller owns
// the listener, whose Close leaves the path alone: that is for RemoveIfOurs.
func (l *SocketLock) Bind(o Owner) (*net.UnixListener, error) {
	stale, err := l.stale()
	if err != nil {
		return nil, err
	}
	if stale {
		if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, newTextError("bind", err)
		}
	}
	fd, err := newSocket()
	if err != nil {
		return nil, newTextError("socket", err)
	}
	f := os.NewFile(uintptr(fd), l.path)
	defer func() { _ = f.Close() }() // the listener has a duplicate
	if err := bindPrivate(fd, l.path); err != nil {
		return nil, newTextError("bind", err)
	}
	ln, err := l.open(f, o)
	if err != nil {
		l.RemoveIfOurs()
		return nil, err
	}
	return ln, nil
}

// open gives the bound socket f to o and makes it listen.
func (l *SocketLock) open(f *os.File, o Owner) (*net.UnixListener, error) {
	mine, err := os.Lstat(l.path)
	if err != nil {
		return nil, newTextError("bind", err)
	}
	l.mu.Lock()
	l.mine = mine
	l.mu.Unlock()
	if err := l.give(mine, o); err != nil {
		return nil, err
	}
	if err := unix.Listen(int(f.Fd()), backlog); err != nil {
		return nil, bindError("listen", err)
	}
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, bindError("listen", err)
	}
	ul, ok := ln.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(bindError("listen", syscall.ENOTSOCK), ln.Close())
	}
	ul.SetUnlinkOnClose(false)
	return ul, nil
}

// give sets owner, group and mode. Where the default group cannot be had, the daemon's own takes its place; on macOS a new
// file has the group of its directory, so that one is set too. EINVAL is what a user namespace says that has no such group, as
// that of a rootless container.
func (l *SocketLock) give(mine os.FileInfo, o Owner) error {
	if o.GID >= 0 {
		step, err := setOwner(l.path, mine, o.UID, o.GID, o.Mode)
		if err == nil {
			return nil
		}
		if o.MustGroup || !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EINVAL) {
			return bindError(step, err)
		}
	}
	if step, err := setOwner(l.path, mine, o.UID, os.Getegid(), o.Mode); err != nil {
		return bindError(step, err)
	}
	l.log.Info("the socket has the daemon's own group, the default one cannot be set", "group", o.GroupName, "gid", os.Getegid())
	return nil
}

// RemoveIfOurs removes the socket unless another file has taken its place. It is idempotent and safe for concurrent use.
func (l *SocketLock) RemoveIfOurs() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mine == nil {
		return
	}
	fi, err := os.Lstat(l.path)
	if err == nil && os.SameFile(fi, l.mine) {
		err = os.Remove(l.path)
	}
	l.mine = nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.log.Warn("cannot remove the socket", "path", l.path, "error", err)
	}
}

// Unlock gives the path up. SOCKET.lock stays: whoever removed it would let two daemons lock two files.
func (l *SocketLock) Unlock() {
	if l.f != nil {
		_ = l.f.Close()
		l.f = nil
	}
}

// lock takes SOCKET.lock.
func (l *SocketLock) lock(ctx context.Context) error {
	deadline := time.Now().Add(lockWait)
	for {
		err := l.tryLock()
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EAGAIN) {
			l.warnLock(err)
			return newTextError("bind", err)
		}
		there, serr := socketAt(l.path)
		if serr != nil {
			return serr
		}
		if there || time.Now().After(deadline) {
			return errInUse
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}

// warnLock says that it is the lock file that is in the way, which the text that socket_vmnet has for it does not tell.
func (l *SocketLock) warnLock(err error) {
	name := l.path + ".lock"
	fi, serr := os.Lstat(name)
	if serr != nil {
		return // it cannot be made, and then the socket cannot either
	}
	advice := "remove it if no daemon serves this socket"
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && errors.Is(err, syscall.EACCES) {
		advice = fmt.Sprintf("a daemon of user %d left it; %s", st.Uid, advice)
	}
	l.log.Warn("the lock file of the socket cannot be used", "path", name, "error", err, "advice", advice)
}

// tryLock takes SOCKET.lock once. EAGAIN: another daemon has it.
func (l *SocketLock) tryLock() error {
	name := l.path + ".lock"
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	if err == nil {
		err = lockable(fi)
	}
	if err == nil {
		err = flock(f)
	}
	if err == nil {
		var same bool
		if same, err = isFileAt(f, name); err == nil && !same {
			err = syscall.EAGAIN // an uninstaller removed it meanwhile
		}
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	l.f = f
	return nil
}

// stale reports whether there is a socket at the path that nobody listens on. errInUse: there is something else.
func (l *SocketLock) stale() (bool, error) {
	there, err := socketAt(l.path)
	if err != nil || !there {
		return false, err
	}
	for i := range probes {
		if i > 0 {
			time.Sleep(probeGap)
		}
		switch err := probe(l.path); {
		case errors.Is(err, syscall.ENOENT):
			return false, nil
		case !errors.Is(err, syscall.ECONNREFUSED):
			return false, errInUse // somebody answers, or may: leave it alone
		}
	}
	return true, nil
}

// lockable refuses what is no lock file. One with another name may be another program's, whose lock would be taken.
func lockable(fi os.FileInfo) error {
	if !fi.Mode().IsRegular() {
		return syscall.EINVAL
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
		return syscall.EMLINK
	}
	return nil
}

// LockGiven claims path for a daemon whose socket there was made by a service manager, which keeps it: it is not probed, and
// Bind and RemoveIfOurs are not for it. Another daemon that has the lock is stopping, as the manager starts one at a time;
// LockGiven waits up to 3 s for it.
func LockGiven(ctx context.Context, path string, log *slog.Logger) (*SocketLock, error) {
	l := &SocketLock{path: path, log: log}
	deadline := time.Now().Add(lockWait)
	for {
		err := l.tryLock()
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, syscall.EAGAIN) {
			return nil, newTextError("bind", err)
		}
		if time.Now().After(deadline) {
			return nil, errInUse
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}
