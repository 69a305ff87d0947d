// SPDX-License-Identifier: Apache-2.0

package mmsg

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// As has everything be sent in the name of a user and a group from now on, and reports whether the system allows that: with
// CAP_SETUID and CAP_SETGID. The process named remains our own: the system takes a foreign one only while it lives, and its
// number may be another's by then. It is called before the first Send.
func (s *Sender) As(uid, gid uint32) bool {
	as := &credential{
		Cmsghdr: unix.Cmsghdr{Level: unix.SOL_SOCKET, Type: unix.SCM_CREDENTIALS},
		Ucred:   unix.Ucred{Pid: int32(os.Getpid()), Uid: uid, Gid: gid},
	}
	as.SetLen(unix.CmsgLen(unix.SizeofUcred))
	if !allowed(as) {
		return false
	}
	s.as = as
	return true
}

// allowed reports whether the system lets us send in the name of as.
func allowed(as *credential) bool {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) }()
	_, err = sendAs(fds[0], nil, frame.NewBatch(frame.Append(nil, make([]byte, frame.MinLen)), 1), as)
	return err == nil
}

// putAs names the sender of a message; nobody if as is nil.
func (m *msghdr) putAs(as *credential) {
	m.control, m.controlLen = 0, 0
	if as != nil {
		m.control, m.controlLen = uintptr(unsafe.Pointer(as)), unsafe.Sizeof(*as)
	}
}
