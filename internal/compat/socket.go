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
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// MaxSocketPath is the longest path of a unix socket in bytes, its terminating NUL not counted: 103 on macOS, 107 on Linux.
const MaxSocketPath = int(unsafe.Sizeof(unix.RawSockaddrUnix{}.Path)) - 1

const (
	// lockWait is how long a daemon waits for one that is stopping: the socket is gone and the lock not yet free.
	// Stopping takes at most 2 s.
	lockWait = 3 * time.Second
	lockPoll = 20 * time.Millisecond

	// refusals are how often a connection to a stale socket is refused, refusalGap apart, where a full backlog refuses as well.
	refusals   = 21
	refusalGap = 50 * time.Millisecond
)

// A SocketLock owns a socket path for the life of the daemon, through a locked file SOCKET.lock beside it. Nothing is bound,
// probed or removed at the path without it. RemoveIfOurs may be called at any time; all else is for one goroutine.
type SocketLock struct {
	at    hostfs.Place // of the socket
	given bool         // by a service manager, whose it is
	log   *slog.Logger
	f     *os.File // of SOCKET.lock

	mu   sync.Mutex
	mine *hostfs.Node // the socket from Bind to RemoveIfOurs, else nil
}

// LockSocket claims path. It fails with "bind: Address already in use", with nothing touched, if there is anything but a
// socket at path, if a daemon listens there, or if another daemon has the lock. While the lock is taken and nothing is at
// path, its holder is stopping or starting, and LockSocket waits up to 3 s for what comes of it. A stale socket stays until Bind.
//
// A socket that was given is one that a service manager has made and keeps: it is not looked at, and Bind and RemoveIfOurs are
// not for it. Another daemon that has the lock is stopping then, as the manager starts one at a time.
func LockSocket(ctx context.Context, path string, given bool, log *slog.Logger) (*SocketLock, error) {
	l := &SocketLock{at: hostfs.Place{Name: path}, given: given, log: log}
	switch {
	case given:
	case len(path) > MaxSocketPath:
		te := &textError{Lines: []string{"the socket path is too long: " + strconv.Itoa(len(path))}, Err: syscall.ENAMETOOLONG}
		return nil, te.advise(fmt.Sprintf("at most %d bytes are possible for %s", MaxSocketPath, path))
	case path == "":
		return nil, l.fail(syscall.ENOENT, "SOCKET is empty")
	}
	_, err := l.there()
	if err == nil {
		err = l.lock(ctx)
	}
	if err == nil {
		_, err = l.stale()
	}
	if err != nil {
		l.Unlock()
		return nil, err
	}
	return l, nil
}

// Bind makes the socket: a stale one is removed, the new one bound with no access for others, given to o, and only then
// made to listen, so that no client connects that may not. The umask of the process is changed for a moment. The caller owns
// the listener, whose Close leaves the path alone: that is for RemoveIfOurs.
func (l *SocketLock) Bind(o Owner) (*net.UnixListener, error) {
	stale, err := l.stale()
	if err != nil {
		return nil, err
	}
	if stale {
		if err := os.Remove(l.at.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, l.fail(err, "")
		}
	}
	fd, err := hostfs.NewSocket(unix.SOCK_STREAM)
	if err != nil {
		return nil, newTextError("socket", err)
	}
	f := os.NewFile(uintptr(fd), l.at.Name)
	defer func() { _ = f.Close() }() // the listener has a duplicate
	if err := hostfs.BindPrivate(fd, l.at.Name); err != nil {
		return nil, l.fail(err, "")
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
	mine, err := l.at.Node()
	if err != nil {
		return nil, l.fail(err, "")
	}
	l.mu.Lock()
	l.mine = &mine
	l.mu.Unlock()
	own, err := o.Give(func(uid, gid int) error {
		if step, err := l.at.Give(mine, uid, gid, uint32(o.Mode.Perm())); err != nil {
			return bindError(step, err).advise(l.at.Name + " cannot be given to group " + quoted(o.GroupName) + ": use sudo, or a group of this user")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if own {
		l.log.Info("the socket has the daemon's own group, the default one cannot be set", "group", o.GroupName, "gid", os.Getegid())
	}
	ln, err := hostfs.Listen(f)
	if err != nil {
		return nil, bindError("listen", err)
	}
	return ln, nil
}

// RemoveIfOurs removes the socket unless another file has taken its place. It is idempotent and safe for concurrent use.
func (l *SocketLock) RemoveIfOurs() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mine == nil {
		return
	}
	if err := l.at.Remove(*l.mine); err != nil {
		l.log.Warn("cannot remove the socket", "path", l.at.Name, "error", err)
	}
	l.mine = nil
}

// Unlock gives the path up. SOCKET.lock stays: two daemons would lock two files if it were removed.
func (l *SocketLock) Unlock() {
	if l.f != nil {
		_ = l.f.Close()
		l.f = nil
	}
}

// lock takes SOCKET.lock. It waits for another daemon that has it while nothing is there.
func (l *SocketLock) lock(ctx context.Context) error {
	for deadline := time.Now().Add(lockWait); ; {
		err := l.tryLock()
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EAGAIN):
			l.warnLock(err)
			return l.fail(err, "")
		}
		if there, err := l.there(); err != nil {
			return err
		} else if there || time.Now().After(deadline) {
			pid, _ := probe(l.at.Name)
			return l.taken(pid)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}

func (l *SocketLock) lockFile() hostfs.Place { return hostfs.Place{Name: l.at.Name + ".lock"} }

// warnLock says that it is the lock file that is in the way, which the text that socket_vmnet has for it does not tell.
func (l *SocketLock) warnLock(err error) {
	n, serr := l.lockFile().Node()
	if serr != nil {
		return // it cannot be made, and then the socket cannot either
	}
	advice := "remove it if no daemon serves this socket"
	if errors.Is(err, syscall.EACCES) {
		advice = fmt.Sprintf("a daemon of user %d left it; %s", n.UID, advice)
	}
	l.log.Warn("the lock file of the socket cannot be used", "path", l.lockFile().Name, "error", err, "advice", advice)
}

// tryLock takes SOCKET.lock once. EAGAIN: another daemon has it, or an uninstaller removed it meanwhile. A file with another name may be
// another program's, whose lock would be taken.
func (l *SocketLock) tryLock() (err error) {
	l.f, err = l.lockFile().Lock(unix.O_CREAT, func(n hostfs.Node) error {
		switch {
		case n.Kind() != unix.S_IFREG:
			return syscall.EINVAL
		case n.Nlink > 1:
			return syscall.EMLINK
		}
		return nil
	})
	return err
}

// there reports whether there is a socket at the path, but one that was given. Anything else that is there is an error.
func (l *SocketLock) there() (bool, error) {
	n, err := l.at.Node()
	switch {
	case l.given, errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, l.fail(err, "")
	case n.Kind() != unix.S_IFSOCK:
		return false, l.fail(syscall.EADDRINUSE, l.at.Name+" is "+kindOf(n)+": give a path where nothing is yet")
	}
	return true, nil
}

// stale reports whether there is a socket at the path that nothing listens on. It fails if there is something else. The BSDs and macOS refuse
// a connection also when the backlog is full, which socket_vmnet's own (it asks for 0) easily is, so there a socket counts as stale only if
// it is refused for a second. Linux tells a full backlog apart, by EAGAIN.
func (l *SocketLock) stale() (bool, error) {
	if there, err := l.there(); err != nil || !there {
		return false, err
	}
	for n := 1; ; n++ {
		switch pid, err := probe(l.at.Name); {
		case errors.Is(err, syscall.ENOENT):
			return false, nil
		case !errors.Is(err, syscall.ECONNREFUSED):
			return false, l.taken(pid) // a daemon answers, or may: leave it alone
		case runtime.GOOS == "linux" || n == refusals:
			return true, nil
		}
		time.Sleep(refusalGap)
	}
}

// probe connects to path and closes. It tells which process listens there, 0 if the system does not say. It never waits: a daemon with a
// full backlog answers EAGAIN or EINPROGRESS.
func probe(path string) (pid int, err error) {
	fd, err := hostfs.NewSocket(unix.SOCK_STREAM)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.SetNonblock(fd, true); err != nil {
		return 0, err
	}
	if err := unix.Connect(fd, hostfs.Address(path)); err != nil {
		return 0, err
	}
	return hostfs.PeerOfFD(fd).PID, nil
}

// A SavedLock is a SocketLock on its way to the next image of the daemon.
type SavedLock struct {
	Path  string `json:"path"`
	FD    int    `json:"fd"` // of SOCKET.lock
	Bound bool   `json:"bound"`
	Dev   uint64 `json:"dev"` // of the socket, if Bound
	Ino   uint64 `json:"ino"`
}

// Save notes what the next image needs. The lock stays ours, and l as it is.
func (l *SocketLock) Save(o *handover.Out) SavedLock {
	s := SavedLock{Path: l.at.Name, FD: o.Conn(l.f)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mine != nil {
		s.Bound, s.Dev, s.Ino = true, l.mine.Dev, l.mine.Ino
	}
	return s
}

// RestoreSocketLock takes a lock over. It is the same lock, which no other process can have had meanwhile.
func RestoreSocketLock(in *handover.In, s SavedLock, log *slog.Logger) (*SocketLock, error) {
	l := &SocketLock{at: hostfs.Place{Name: s.Path}, log: log}
	var err error
	if l.f, err = in.File(s.FD); err != nil {
		return nil, fmt.Errorf("take over the lock of %s: %w", s.Path, err)
	}
	if s.Bound {
		l.mine = &hostfs.Node{Dev: s.Dev, Ino: s.Ino}
	}
	return l, nil
}
