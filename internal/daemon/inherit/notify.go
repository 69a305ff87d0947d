// SPDX-License-Identifier: Apache-2.0

package inherit

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// notifyTime is how long the service manager may take to make room for a message.
const notifyTime = 500 * time.Millisecond

// A Notifier tells a service manager how the daemon is, by systemd's protocol: one datagram to the socket at Addr, an absolute path or
// "@" and an abstract name, or, if that is not zero, by the descriptor Pair. One with neither tells nothing. What cannot be told is
// logged at DEBUG and is no error.
type Notifier struct {
	Addr string
	Pair int
	Log  *slog.Logger
}

// Ready tells that the daemon serves. status is for people.
func (n Notifier) Ready(status string) { n.send(nil, "READY=1", "STATUS="+status) }

// Stopping tells that it has begun to stop.
func (n Notifier) Stopping() { n.send(nil, "STOPPING=1", "STATUS=stopping") }

// Store has the manager keep copies of descriptors for the next process, by the name, in place of those that it has by that name.
func (n Notifier) Store(name string, fds ...int) {
	n.Forget(name)
	n.send(fds, "FDSTORE=1", "FDNAME="+name)
}

// Forget has it close those of the name.
func (n Notifier) Forget(name string) { n.send(nil, "FDSTOREREMOVE=1", "FDNAME="+name) }

// Stores reports whether there is a manager that Store could reach.
func (n Notifier) Stores() bool { return n.Addr != "" || n.Pair != 0 }

// Reloading tells that it changes its image; Ready follows.
func (n Notifier) Reloading() {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // else it stays zero
	n.send(nil, "RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000), "STATUS=upgrading")
}

// sending is held while a message waits for room, which takes a thread: thousands of clients may be stored at once.
var sending sync.Mutex

// send sends one message of these lines, with copies of descriptors.
func (n Notifier) send(fds []int, lines ...string) {
	if !n.Stores() {
		return
	}
	for i, l := range lines {
		lines[i] = strings.ReplaceAll(l, "\n", " ") // a line break would begin another assignment
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	sending.Lock()
	defer sending.Unlock()
	err := error(unix.EINTR)
	for err == unix.EINTR {
		err = n.write([]byte(strings.Join(lines, "\n")), rights)
	}
	if err != nil {
		n.Log.Debug("the service manager was not told", "state", lines[0], "error", err)
	}
}

func (n Notifier) write(b, rights []byte) (err error) {
	fd, to := n.Pair, unix.Sockaddr(nil)
	if fd == 0 {
		if fd, err = hostfs.NewSocket(unix.SOCK_DGRAM); err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		to = &unix.SockaddrUnix{Name: n.Addr} // a leading "@" makes it an abstract name
	}
	wait := unix.NsecToTimeval(int64(notifyTime))
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &wait)
	return unix.Sendmsg(fd, b, rights, to, 0)
}
