// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// acceptPause is the pause after a failed accept.
	acceptPause = 100 * time.Millisecond

	// backlogPause is how long the backlog must have been empty at a stop, backlogMax how long it is served at most.
	backlogPause = 5 * time.Millisecond
	backlogMax   = 100 * time.Millisecond
)

// Accept hands every connection of ln to handle, which must not block, until ctx is done. Connections that wait then are left
// to AcceptWaiting, or to the next owner of the listener. No error of accept ends it but ln being closed: when descriptors or
// memory have run out it pauses and tries again.
//
// It changes ln's deadline and does not close ln. It may be called again on the same listener.
func Accept(ctx context.Context, ln *net.UnixListener, handle func(*net.UnixConn), log *slog.Logger) {
	_ = ln.SetDeadline(time.Time{})
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_ = ln.SetDeadline(Past)
	})
	defer func() {
		if !stop() {
			<-woken // else it could end the next one
		}
	}()
	for ctx.Err() == nil {
		conn, err := ln.AcceptUnix()
		switch {
		case err == nil:
			handle(conn)
		case errors.Is(err, net.ErrClosed), ctx.Err() != nil:
			return
		default:
			log.Warn("accepting a connection failed; trying again", "error", err) // the log counts lines that repeat
			select {
			case <-ctx.Done():
			case <-time.After(acceptPause):
			}
		}
	}
}

// AcceptWaiting hands the connections of ln to handle that wait to be accepted, so that a stop resets none, until none has come
// for backlogPause or backlogMax is over. It comes after Accept.
func AcceptWaiting(ln *net.UnixListener, handle func(*net.UnixConn)) {
	raw, err := ln.SyscallConn()
	if err != nil {
		return
	}
	_ = ln.SetDeadline(time.Now().Add(backlogMax))
	for {
		waits := false
		_ = raw.Control(func(fd uintptr) {
			n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(backlogPause.Milliseconds()))
			waits = n == 1
		})
		if !waits {
			return
		}
		conn, err := ln.AcceptUnix()
		if err != nil {
			return
		}
		handle(conn)
	}
}
