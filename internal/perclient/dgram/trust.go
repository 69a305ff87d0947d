// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
)

// maxPath is the longest path that a socket's address can hold, in bytes, on the system where it is longest.
const maxPath = 107

// errElsewhere: a path led to a socket that was bound by another name.
var errElsewhere = errors.New("the path leads to a socket that was bound by another name")

// Trust says which paths the daemon sends to. The source address of a unix datagram is what the sender once gave to bind, as
// a string: it may be relative, abstract, made in another file system, or lead to something else by now.
type Trust struct {
	// AllowUIDs are owners that are allowed although they would not be (--allow-uid). That is root alone, whatever user the daemon
	// runs as: what root binds and lets others write to is mostly a service, such as the system's log.
	AllowUIDs []uint32
	Own       []string // paths that the daemon bound itself: never sent to
}

// An inode identifies a file for as long as it exists.
type inode struct{ dev, ino uint64 }

func inodeOf(st *unix.Stat_t) inode { return inode{dev: uint64(st.Dev), ino: st.Ino} }

// A target is a client's socket in the file system. Where the system can, it holds the very inode that was checked, so that
// whatever happens to the path later, nothing else is sent to. pin.Close releases it.
type target struct {
	path   string
	uid    uint32
	id     inode
	pin    link.Descriptor // of the inode, if the system has such
	pinned bool            // to leads to the inode itself; else the path is looked at before each use
	to     []byte          // what to give to connect and sendto
}

// newTarget makes the target of the file id at path, whose pin it takes over. One that leads elsewhere is as good as none.
func newTarget(path string, uid uint32, id inode, pin link.Descriptor) *target {
	t := &target{path: path, uid: uid, id: id, pin: pin, to: []byte(path)}
	var st unix.Stat_t
	if via := through(pin); via != "" && unix.Stat(via, &st) == nil && inodeOf(&st) == id {
		t.to, t.pinned = []byte(via), true
	}
	return t
}

// same reports whether the path still leads to the socket that was checked, and not by a link.
func (t *target) same() bool {
	var st unix.Stat_t
	return lstat(t.path, &st) == nil && inodeOf(&st) == t.id && isSocket(&st)
}

// usable reports whether to leads to what was checked.
func (t *target) usable() bool { return t.pinned || t.same() }

// present reports whether the path still leads to the socket, and a process has it. It asks by connecting: sending something would be
// taken for a frame.
func (t *target) present() bool {
	if !t.same() {
		return false
	}
	conn, err := t.connect()
	if err == nil {
		_ = conn.Close()
	}
	return !isGone(err)
}

// connect connects a new socket to what was checked: to its inode itself where the system can name that; else it looks
// before, and after at the name that the peer has bound. EPERM: the client has connected its socket to another one, and takes nothing
// from this one.
func (t *target) connect() (*net.UnixConn, error) {
	if !t.usable() {
		return nil, unix.ENOENT
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: string(t.to), Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("connect to client: %w", err)
	}
	peer, ok := conn.RemoteAddr().(*net.UnixAddr)
	switch {
	case !ok || peer == nil:
		err = unix.ECONNREFUSED // it has gone meanwhile
	case peer.Name != t.path:
		err = fmt.Errorf("connect to client %q: %w: %q", t.path, errElsewhere, peer.Name)
	case !t.usable():
		err = unix.ENOENT
	default:
		return conn, nil
	}
	_ = conn.Close()
	return nil, err
}

// isGone reports whether err says that no process has the client's socket any more.
func isGone(err error) bool {
	return link.IsGone(err) || errors.Is(err, unix.ENOENT)
}

// again calls f until no signal interrupts it.
func again(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

func lstat(path string, st *unix.Stat_t) error {
	return again(func() error { return unix.Lstat(path, st) })
}

func isSocket(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFSOCK }

// classify looks at an address alone, as a sender bound it, without the file system. A nil name is an unbound sender.
func classify(name []byte) cause {
	switch {
	case len(name) == 0:
		return unbound
	case name[0] == 0:
		return abstract
	case name[0] != '/':
		return relative
	case len(name) > maxPath:
		return tooLong
	case bytes.IndexByte(name, 0) >= 0:
		return vanished
	}
	return ""
}

// check looks whether frames may be sent to path, which is what a client bound. Its error is an *untrusted.
func (t Trust) check(path string) (*target, error) {
	if r := classify([]byte(path)); r != "" {
		return nil, refuse(path, r, nil)
	}
	var st unix.Stat_t
	pin, err := hold(path, &st)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, refuse(path, isLink, nil)
	case err != nil:
		return nil, refuse(path, vanished, err)
	}
	if r := t.judge(&st, mayHang(pin)); r != "" {
		pin.Close()
		return nil, refuse(path, r, nil)
	}
	return newTarget(path, st.Uid, inodeOf(&st), pin), nil
}

// judge looks at what a path leads to. One that may hang is good on the file system of a socket of the daemon.
func (t Trust) judge(st *unix.Stat_t, hangs bool) cause {
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return isLink
	case !isSocket(st):
		return noSocket
	case st.Uid == 0 && !slices.Contains(t.AllowUIDs, 0):
		return ownerRoot
	}
	for _, own := range t.Own {
		var o unix.Stat_t
		switch {
		case lstat(own, &o) != nil:
		case inodeOf(&o) == inodeOf(st):
			return ownPath
		default:
			hangs = hangs && o.Dev != st.Dev
		}
	}
	if hangs {
		return slow
	}
	return ""
}
