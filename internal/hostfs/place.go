// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"reflect"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Node is what a file system knows of a file.
type Node struct {
	Dev, Ino, Nlink uint64
	Mode            uint32 // with the kind of file
	UID, GID        uint32
}

// Kind is one of unix.S_IFREG and its like.
func (n Node) Kind() uint32 { return n.Mode & unix.S_IFMT }

// Same tells whether both are one file.
func (n Node) Same(o Node) bool { return n.Dev == o.Dev && n.Ino == o.Ino }

// OwnSocket tells whether n can be a socket that this process has just bound. Another name for it would let others keep it when the path
// is gone, so there must be none.
func (n Node) OwnSocket() bool {
	return n.Kind() == unix.S_IFSOCK && int(n.UID) == os.Geteuid() && n.Nlink == 1
}

// nodeOf takes the fields whose types differ between systems.
func nodeOf(st *unix.Stat_t) Node {
	return Node{
		Dev: uint64(st.Dev), Ino: st.Ino, Nlink: uint64(st.Nlink), //nolint:unconvert // some are narrower on other systems
		Mode: uint32(st.Mode), UID: st.Uid, GID: st.Gid, //nolint:unconvert // so is this
	}
}

// NodeOf is what f is.
func NodeOf(f *os.File) (Node, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	return nodeOf(&st), err
}

// A Place is a name in a directory, or a path if there is none. No link is followed there.
type Place struct {
	Dir  *os.File
	Name string
}

func (p Place) dir() int {
	if p.Dir == nil {
		return unix.AT_FDCWD
	}
	return int(p.Dir.Fd())
}

// Node is what is there.
func (p Place) Node() (Node, error) {
	var st unix.Stat_t
	err := unix.Fstatat(p.dir(), p.Name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return nodeOf(&st), err
}

// Open opens what is there.
func (p Place) Open(flags int) (*os.File, error) {
	raw, err := unix.Openat(p.dir(), p.Name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(raw), p.Name), nil
}

// Holds tells whether f is what is there.
func (p Place) Holds(f *os.File) (bool, error) {
	n, err := NodeOf(f)
	if err != nil {
		return false, err
	}
	there, err := p.Node()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && there.Same(n), err
}

// Remove removes n, which is no directory, unless another file is there.
func (p Place) Remove(n Node) error {
	there, err := p.Node()
	if err == nil && there.Same(n) {
		err = unix.Unlinkat(p.dir(), p.Name, 0)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Lock opens the file that is there, which check takes, and locks it without waiting. With O_CREAT in flags it is made with mode 0600.
// EAGAIN: another process has the lock, or has removed the file meanwhile. It is the same lock that macOS's O_EXLOCK takes, so it keeps
// socket_vmnet out and is kept out by it.
func (p Place) Lock(flags int, check func(Node) error) (*os.File, error) {
	f, err := p.Open(flags | unix.O_RDWR | unix.O_NONBLOCK) // what is no file is not waited for
	if err != nil {
		return nil, err
	}
	n, err := NodeOf(f)
	if err == nil {
		err = check(n)
	}
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		var same bool
		if same, err = p.Holds(f); err == nil && !same {
			err = unix.EAGAIN
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// backlog asks for the system's maximum: both kernels cut it down to kern.ipc.somaxconn or net.core.somaxconn.
const backlog = 1<<16 - 1

// Inherited reports whether fd is open and stays so in a program that takes this one's place. A descriptor with close-on-exec is this
// process's own.
func Inherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// NewSocket makes a unix socket that children do not inherit.
func NewSocket(kind int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	return fd, err
}

// BindPrivate binds the socket fd to path with mode 0600, so that others have no access before its owner is set. The
// umask of the process is changed for that moment. The error is a bare errno.
func BindPrivate(fd int, path string) error {
	old := unix.Umask(0o177)
	defer unix.Umask(old)
	return unix.Bind(fd, Address(path))
}

// Address is path as a socket address. On Linux a leading "@" would mean the abstract name space, which is never meant here.
func Address(path string) *unix.SockaddrUnix {
	if strings.HasPrefix(path, "@") {
		path = "./" + path
	}
	return &unix.SockaddrUnix{Name: path}
}

// Listen makes the bound socket f listen. The listener has a duplicate of f, and its Close leaves the path alone.
func Listen(f *os.File) (*net.UnixListener, error) {
	if err := unix.Listen(int(f.Fd()), backlog); err != nil {
		return nil, err
	}
	return Socket[*net.UnixListener](f)
}

// Socket is a duplicate of f as a T, such as *net.UnixConn, whatever its type and whether or not it is connected, or, if T is a
// net.Listener, as one that listens already, whose Close leaves the path alone. After an error it is the zero T.
func Socket[T io.Closer](f *os.File) (t T, err error) {
	var s io.Closer
	if reflect.TypeFor[T]().Implements(reflect.TypeFor[net.Listener]()) {
		s, err = net.FileListener(f)
	} else {
		s, err = net.FileConn(f)
	}
	if err != nil {
		return t, err
	}
	t, ok := s.(T)
	if !ok {
		return t, errors.Join(fmt.Errorf("it is no %T", t), s.Close())
	}
	return t, nil
}
