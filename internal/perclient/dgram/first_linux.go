// SPDX-License-Identifier: Apache-2.0

package dgram

import "golang.org/x/sys/unix"

const (
	// credentialLen is room for the control message with the sender, in bytes.
	credentialLen = unix.SizeofCmsghdr + (unix.SizeofUcred+7)&^7

	peekFlags = unix.MSG_PEEK | unix.MSG_DONTWAIT | unix.MSG_CMSG_CLOEXEC
)

// askSenders has the system tell who sends to fd from now on, or no more.
func askSenders(fd int, on bool) {
	v := 0
	if on {
		v = 1
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, v)
}

// senderIn is who sent a message, from its control messages. What was sent before askSenders has none. Descriptors that came are
// closed: there is no room for any, but another process that has the socket may end askSenders.
func senderIn(control []byte) (s sender) {
	list, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return sender{}
	}
	for i := range list {
		if c, err := unix.ParseUnixCredentials(&list[i]); err == nil && c.Pid != 0 {
			s = sender{uid: c.Uid, known: true}
		}
		if fds, err := unix.ParseUnixRights(&list[i]); err == nil {
			for _, fd := range fds {
				_ = unix.Close(fd)
			}
		}
	}
	return s
}
