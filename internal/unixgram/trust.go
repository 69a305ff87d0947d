// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxPath is the longest path that a socket's address can hold, in bytes, on the system where it is longest.
const maxPath = 107

// Trust says which paths the daemon sends to. The source address of a unix datagram is what the sender once gave to bind, as
// a string: it may be relative, abstract, made in another file system, or lead to something else by now.
type Trust struct {
	// AllowUIDs are owners that are allowed although they would not be (--allow-uid). That is root alone, whoever the daemon
	// runs as: what root binds and lets others write to is mostly a service, such as the system's log.
	AllowUIDs []uint32
	Own       []string // paths that the daemon bound itself: never sent to

	// ReplySocket: every client is answered through a socket of its own, and senders cannot be asked for their identity.
	// This is how it is on macOS.
	ReplySocket bool
}

// A Reason is why an address is not trusted. It is a key for counters and a part of Untrusted's text.
type Reason string

// The reasons.
const (
	Unbound   Reason = "unbound"
	Abstract  Reason = "abstract"
	Relative  Reason = "relative"
	TooLong   Reason = "too long"
	OwnPath   Reason = "own path"
	Vanished  Reason = "vanished"
	NoSocket  Reason = "not a socket"
	IsLink    Reason = "a link"
	OwnerRoot Reason = "owned by root"
	Forged    Reason = "forged"
	Foreign   Reason = "another user's"
	Loop      Reason = "looping" // sent by the daemon itself
	Slow      Reason = "slow"    // on a file system that does not answer, or may not
	Refused   Reason = "refused"
	Early     Reason = "early" // before the socket was set up
)

// Untrusted is the error of Check.
type Untrusted struct {
	Path   string // as the sender bound it, may be anything
	Reason Reason
	Err    error  // the system's, may be nil
	Advice string // what to do
}

func (e *Untrusted) Error() string {
	s := fmt.Sprintf("client address %q: %s", e.Path, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + ": " + e.Advice
}

// Unwrap returns the system's error.
func (e *Untrusted) Unwrap() error { return e.Err }

// An inode identifies a file for as long as it exists.
type inode struct {
	dev, ino uint64
}

func inodeOf(st *unix.Stat_t) inode { return inode{dev: uint64(st.Dev), ino: st.Ino} }

// A Target is a client's socket in the file system. Where the system can, it holds the very inode that was checked, so that
// whatever happens to the path later, nothing else is sent to. Close releases it.
type Target struct {
	path string
	uid  uint32
	id   inode
	pin  pin
	to   []byte // what to give to sendto
}

// Path is the path as the client bound it.
func (t *Target) Path() string { return t.path }

// UID is the owner of the socket.
func (t *Target) UID() uint32 { return t.uid }

// Close releases what the Target holds. The Target is not used any more.
func (t *Target) Close() { t.pin.close() }

// Same reports whether the path still leads to the socket that was checked, and not by a link.
func (t *Target) Same() bool {
	var st unix.Stat_t
	err := lstat(t.path, &st)
	return err == nil && inodeOf(&st) == t.id && isSocket(&st)
}

// lstat is unix.Lstat, again after an interruption.
func lstat(path string, st *unix.Stat_t) error {
	for {
		if err := unix.Lstat(path, st); err != unix.EINTR {
			return err
		}
	}
}

func isSocket(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFSOCK }

// classify looks at an address alone, as a sender bound it, without the file system. A nil name is an unbound sender.
func classify(name []byte) Reason {
	switch {
	case len(name) == 0:
		return Unbound
	case name[0] == 0:
		return Abstract
	case name[0] != '/':
		return Relative
	case len(name) > maxPath:
		return TooLong
	}
	return ""
}

// Check looks whether frames may be sent to path, which is what a client bound. Its error is an *Untrusted.
func (t Trust) Check(path string) (*Target, error) {
	bad := func(r Reason, err error, advice string) (*Target, error) {
		return nil, &Untrusted{Path: path, Reason: r, Err: err, Advice: advice}
	}
	if r := classify([]byte(path)); r != "" {
		return bad(r, nil, adviceFor(r))
	}
	if strings.IndexByte(path, 0) >= 0 {
		return bad(Vanished, nil, adviceFor(Vanished))
	}
	if slices.Contains(t.Own, path) || slices.Contains(t.Own, filepath.Clean(path)) {
		return bad(OwnPath, nil, adviceFor(OwnPath))
	}
	p, st, err := pinPath(path)
	if err != nil {
		if errors.Is(err, unix.ELOOP) {
			return bad(IsLink, nil, adviceFor(IsLink))
		}
		return bad(Vanished, err, adviceFor(Vanished))
	}
	r := t.judge(&st)
	if r == "" && p.mayHang() && !t.besideOwn(&st) {
		r = Slow
	}
	if r != "" {
		p.close()
		return bad(r, nil, adviceFor(r))
	}
	target := &Target{path: path, uid: st.Uid, id: inodeOf(&st), pin: p}
	target.to = []byte(target.name())
	return target, nil
}

// besideOwn reports whether a file is on the file system of a socket of the daemon.
func (t Trust) besideOwn(st *unix.Stat_t) bool {
	for _, own := range t.Own {
		var o unix.Stat_t
		if lstat(own, &o) == nil && o.Dev == st.Dev {
			return true
		}
	}
	return false
}

// judge looks at what a path leads to.
func (t Trust) judge(st *unix.Stat_t) Reason {
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return IsLink
	case !isSocket(st):
		return NoSocket
	case st.Uid == 0 && !slices.Contains(t.AllowUIDs, 0):
		return OwnerRoot
	}
	for _, own := range t.Own {
		var o unix.Stat_t
		if lstat(own, &o) == nil && inodeOf(&o) == inodeOf(st) {
			return OwnPath
		}
	}
	return ""
}

// adviceFor is what a user does about r.
func adviceFor(r Reason) string {
	switch r {
	case Unbound:
		return "bind the client's socket to a path, else nothing can be sent back"
	case Abstract:
		return "bind the client's socket to a path: abstract names have no owner that could be checked"
	case Relative:
		return "bind the client's socket to an absolute path: a relative one means something else in this process"
	case TooLong:
		return "bind the client's socket to a shorter path"
	case OwnPath:
		return "this is a socket of the daemon: bind the client's socket to a path of its own"
	case Vanished:
		return "it cannot be found at this path by the daemon: keep the socket there, and do not bind it in another root directory"
	case NoSocket, IsLink:
		return "the path must be the socket itself"
	case OwnerRoot:
		return "run the client as another user, or start the daemon with --allow-uid 0"
	case Slow:
		return "bind the client's socket in a local directory, best beside the daemon's"
	case Foreign:
		return "hand the socket over as the user who runs the virtual machine"
	case Loop:
		return "a socket that was handed over to the daemon leads to the daemon itself: connect it to the virtual machine"
	case Forged:
		return "the sender is not the socket's owner: whoever binds a socket must use it"
	default:
		return "see the error"
	}
}
