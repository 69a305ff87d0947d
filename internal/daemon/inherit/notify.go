// SPDX-License-Identifier: Apache-2.0

package inherit

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// notifyTime is how long the service manager may take to read a message.
const notifyTime = 500 * time.Millisecond

// A Notifier tells a service manager how the daemon is, by systemd's protocol: one datagram to the socket at Addr, an absolute path or
// "@" and an abstract name. One without an address tells nothing. What cannot be told is logged at DEBUG and is no error.
type Notifier struct {
	Addr string
	Log  *slog.Logger
}

// Ready tells that the daemon serves. status is for people.
func (n Notifier) Ready(status string) { n.send("READY=1", "STATUS="+status) }

// Stopping tells that it has begun to stop.
func (n Notifier) Stopping() { n.send("STOPPING=1", "STATUS=stopping") }

// Reloading tells that it changes its image; Ready follows.
func (n Notifier) Reloading() {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // else it stays zero
	n.send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000), "STATUS=upgrading")
}

// send sends one message of these lines.
func (n Notifier) send(lines ...string) {
	if n.Addr == "" {
		return
	}
	for i, l := range lines {
		lines[i] = strings.ReplaceAll(l, "\n", " ") // a line break would begin another assignment
	}
	// Package net takes a leading "@" for an abstract name, too.
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.Addr, Net: "unixgram"})
	if err == nil {
		defer func() { _ = c.Close() }()
		_ = c.SetWriteDeadline(time.Now().Add(notifyTime))
		_, err = c.Write([]byte(strings.Join(lines, "\n")))
	}
	if err != nil {
		n.Log.Debug("the service manager was not told", "state", lines[0], "error", err)
	}
}
