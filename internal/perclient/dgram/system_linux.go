// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
)

const (
	// replyOnly: a client that has connected its socket takes datagrams only from the socket that it has connected to.
	replyOnly = false

	// repliesTell: a reply socket is ready for writing when its client has room.
	repliesTell = true

	// credentialLen is room for the control message with the sender, in bytes.
	credentialLen = unix.SizeofCmsghdr + (unix.SizeofUcred+7)&^7

	peekFlags = unix.MSG_PEEK | unix.MSG_DONTWAIT | unix.MSG_CMSG_CLOEXEC
)

// procFd is where Linux shows a process its descriptors as links that lead to the open file itself, whatever its path has
// become. By its number, since /proc/self is one more link to follow for each frame. A daemon that executes another program
// keeps its number.
var procFd = "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/"

// through is the path that leads to what pin holds.
func through(pin link.Descriptor) string { return procFd + strconv.Itoa(pin.FD) }

// hold opens the socket at path itself, following no link in its last part, by a descriptor that can be named, but neither read nor
// written.
func hold(path string, st *unix.Stat_t) (link.Descriptor, error) {
	fd := -1
	err := again(func() (err error) {
		fd, err = unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return link.Descriptor{}, err
	}
	pin := link.Descriptor{FD: fd}
	if err := unix.Fstat(fd, st); err != nil {
		pin.Close()
		return link.Descriptor{}, err
	}
	return pin, nil
}

// mayHang reports whether a socket is on a file system that another machine or program serves: each use of the socket asks for its
// permissions, and may wait for the answer for ever.
func mayHang(pin link.Descriptor) bool {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(pin.FD, &fs); err != nil {
		return false
	}
	switch uint32(fs.Type) {
	case unix.FUSE_SUPER_MAGIC, unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC,
		unix.V9FS_MAGIC, unix.AFS_FS_MAGIC, unix.AFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.CODA_SUPER_MAGIC:
		return true
	}
	return false
}

// askSenders has the system tell which process sends to fd from now on, or no more.
func askSenders(fd int, on bool) error {
	v := 0
	if on {
		v = 1
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, v)
}

// senderIn is what sent a message, from its control messages. What was sent before askSenders has none. Descriptors that came are
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

// enlargeShared asks for sharedBufLen, has the senders told, and returns what the send buffer is.
func enlargeShared(fd int) (int, error) {
	if err := askSenders(fd, true); err != nil {
		return 0, fmt.Errorf("ask for the senders of datagrams: %w", err)
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sharedBufLen) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sharedBufLen) // as much as any user may have
	}
	return unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
}

// yield lets other goroutines and other processes run.
func yield() {
	runtime.Gosched()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}

// outstanding is what the clients of fd have not read, in charged bytes. If the system does not tell, it is as much as can be.
func outstanding(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if err != nil {
		return math.MaxInt32
	}
	return n
}
