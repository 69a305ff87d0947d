// SPDX-License-Identifier: Apache-2.0

package dgram

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

// A cause is why an address is not trusted. It is a key for counters and a part of untrusted's text.
type cause string

// The reasons.
const (
	unbound   cause = "unbound"
	abstract  cause = "abstract"
	relative  cause = "relative"
	tooLong   cause = "too long"
	ownPath   cause = "own path"
	vanished  cause = "vanished"
	noSocket  cause = "not a socket"
	isLink    cause = "a link"
	ownerRoot cause = "owned by root"
	forged    cause = "forged"
	foreign   cause = "another user's"
	loop      cause = "looping" // sent by the daemon itself
	slow      cause = "slow"    // on a file system that does not answer, or may not
	refused   cause = "refused"
	early     cause = "early" // before the socket was set up
)

// untrusted is the error of check.
type untrusted struct {
	Path   string // as the sender bound it, may be anything
	Reason cause
	Err    error  // the system's, may be nil
	Advice string // what to do
}

func (e *untrusted) Error() string {
	s := fmt.Sprintf("client address %q: %s", e.Path, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + ": " + e.Advice
}

// Unwrap returns the system's error.
func (e *untrusted) Unwrap() error { return e.Err }

// An inode identifies a file for as long as it exists.
type inode struct {
	dev, ino uint64
}

func inodeOf(st *unix.Stat_t) inode { return inode{dev: uint64(st.Dev), ino: st.Ino} }

// A target is a client's socket in the file system. Where the system can, it holds the very inode that was checked, so that
// whatever happens to the path later, nothing else is sent to. close releases it.
type target struct {
	path string
	uid  uint32
	id   inode
	pin  pin
	to   []byte // what to give to sendto
}

// close releases what the target holds. The target is not used any more.
func (t *target) close() { t.pin.close() }

// same reports whether the path still leads to the socket that was checked, and not by a link.
func (t *target) same() bool {
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
	}
	return ""
}

// check looks whether frames may be sent to path, which is what a client bound. Its error is an *untrusted.
func (t Trust) check(path string) (*target, error) {
	bad := func(r cause, err error, advice string) (*target, error) {
		return nil, &untrusted{Path: path, Reason: r, Err: err, Advice: advice}
	}
	if r := classify([]byte(path)); r != "" {
		return bad(r, nil, adviceFor(r))
	}
	if strings.IndexByte(path, 0) >= 0 {
		return bad(vanished, nil, adviceFor(vanished))
	}
	if slices.Contains(t.Own, path) || slices.Contains(t.Own, filepath.Clean(path)) {
		return bad(ownPath, nil, adviceFor(ownPath))
	}
	p, st, err := pinPath(path)
	if err != nil {
		if errors.Is(err, unix.ELOOP) {
			return bad(isLink, nil, adviceFor(isLink))
		}
		return bad(vanished, err, adviceFor(vanished))
	}
	r := t.judge(&st)
	if r == "" && p.mayHang() && !t.besideOwn(&st) {
		r = slow
	}
	if r != "" {
		p.close()
		return bad(r, nil, adviceFor(r))
	}
	target := &target{path: path, uid: st.Uid, id: inodeOf(&st), pin: p}
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
func (t Trust) judge(st *unix.Stat_t) cause {
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
		if lstat(own, &o) == nil && inodeOf(&o) == inodeOf(st) {
			return ownPath
		}
	}
	return ""
}

// adviceFor is what a user does about r.
func adviceFor(r cause) string {
	switch r {
	case unbound:
		return "bind the client's socket to a path, else nothing can be sent back"
	case abstract:
		return "bind the client's socket to a path: abstract names have no owner that could be checked"
	case relative:
		return "bind the client's socket to an absolute path: a relative one means something else in this process"
	case tooLong:
		return "bind the client's socket to a shorter path"
	case ownPath:
		return "this is a socket of the daemon: bind the client's socket to a path of its own"
	case vanished:
		return "it cannot be found at this path by the daemon: keep the socket there, and do not bind it in another root directory"
	case noSocket, isLink:
		return "the path must be the socket itself"
	case ownerRoot:
		return "run the client as another user, or start the daemon with --allow-uid 0"
	case slow:
		return "bind the client's socket in a local directory, best beside the daemon's"
	case foreign:
		return "hand the socket over as the user who runs the virtual machine"
	case loop:
		return "a socket that was handed over to the daemon leads to the daemon itself: connect it to the virtual machine"
	case forged:
		return "the sender is not the socket's owner: whoever binds a socket must use it"
	default:
		return "see the error"
	}
}
