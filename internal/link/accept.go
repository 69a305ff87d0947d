// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// acceptRetryMin and acceptRetryMax bound the pause after a failed accept.
	acceptRetryMin = 5 * time.Millisecond
	acceptRetryMax = time.Second

	// backlogPause is how long the backlog must have been empty at the stop, backlogMax how long it is served at most.
	backlogPause = 5 * time.Millisecond
	backlogMax   = 100 * time.Millisecond

	// acceptWarnEvery limits the warnings about failed accepts.
	acceptWarnEvery = 10 * time.Second
)

// ErrLeave as the cause of the end of Accept's context leaves those who wait to whoever has the listener next.
var ErrLeave = errors.New("the listener goes to somebody else")

// Accept hands every connection of ln to handle, which must not block, until ctx is done; then it accepts what is still
// waiting, so that nobody gets a reset, and returns. With ErrLeave as ctx's cause nobody else is accepted. No error of accept
// ends it but ln being closed: when descriptors or memory have run out it pauses and tries again.
//
// It changes ln's deadline and does not close ln. It may be called again on the same listener.
func Accept(ctx context.Context, ln *net.UnixListener, handle func(*net.UnixConn), log *slog.Logger) {
	accept(ctx, ln, handle, log, true)
}

// AcceptUntil is Accept for a listener that somebody else keeps open: what is waiting when ctx is done is left to the next
// process. It may be called again on the same listener.
func AcceptUntil(ctx context.Context, ln *net.UnixListener, handle func(*net.UnixConn), log *slog.Logger) {
	accept(ctx, ln, handle, log, false)
}

func accept(ctx context.Context, ln *net.UnixListener, handle func(*net.UnixConn), log *slog.Logger, rest bool) {
	_ = ln.SetDeadline(time.Time{})
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		last := past
		if rest && !left(ctx) {
			last = time.Now().Add(backlogPause)
		}
		_ = ln.SetDeadline(last)
	})
	defer func() {
		if !stop() {
			<-woken // else it could end the next one
		}
	}()
	var (
		retry  time.Duration
		warned time.Time
		until  time.Time // of serving the backlog
	)
	for {
		conn, err := ln.AcceptUnix()
		if ctx.Err() != nil && !rest || left(ctx) {
			if err == nil {
				handleSafely(conn, handle, log)
			}
			log.Debug("who connects from here on is left to the next process")
			return
		}
		if ctx.Err() != nil {
			if until.IsZero() {
				until = time.Now().Add(backlogMax)
			}
			if time.Now().After(until) { // however many still come: the stop has a limit
				if err == nil {
					handleSafely(conn, handle, log)
				}
				return
			}
			_ = ln.SetDeadline(time.Now().Add(backlogPause))
		}
		switch {
		case err == nil:
			retry = 0
			handleSafely(conn, handle, log)
			continue
		case os.IsTimeout(err) && ctx.Err() != nil && waits(ln): // this goroutine had no processor until the deadline was over
			_ = ln.SetDeadline(until)
			continue
		case errors.Is(err, net.ErrClosed), os.IsTimeout(err) && ctx.Err() != nil:
			return
		}
		if time.Since(warned) > acceptWarnEvery {
			warned = time.Now()
			log.Warn("accepting a connection failed; trying again", "error", err)
		}
		retry = min(max(2*retry, acceptRetryMin), acceptRetryMax)
		pause(ctx, retry)
	}
}

// waits reports that somebody waits to be accepted.
func waits(ln *net.UnixListener) (yes bool) {
	raw, err := ln.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		yes = err == nil && n == 1 && p[0].Revents&unix.POLLIN != 0
	})
	return yes
}

// left reports that ctx is done because of ErrLeave.
func left(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrLeave) }

// handleSafely is handle, of which a panic ends this connection alone.
func handleSafely(conn *net.UnixConn, handle func(*net.UnixConn), log *slog.Logger) {
	defer func() {
		if r := recover(); r != nil {
			log.Error("internal error: this connection is closed, the others run on; please report it",
				"doing", "accepting", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			_ = conn.Close()
		}
	}()
	handle(conn)
}

// pause sleeps for d or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
