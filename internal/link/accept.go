// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"time"
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

// Accept hands every connection of ln to handle, which must not block, until ctx is done; then it accepts what is still
// waiting, so that nobody gets a reset, and returns. No error of accept ends it but ln being closed: when descriptors or
// memory have run out it pauses and tries again.
//
// It changes ln's deadline and does not close ln.
func Accept(ctx context.Context, ln *net.UnixListener, handle func(*net.UnixConn), log *slog.Logger) {
	stop := context.AfterFunc(ctx, func() { _ = ln.SetDeadline(time.Now().Add(backlogPause)) })
	defer stop()
	var (
		retry  time.Duration
		warned time.Time
		until  time.Time // of serving the backlog
	)
	for {
		conn, err := ln.AcceptUnix()
		if ctx.Err() != nil {
			if until.IsZero() {
				until = time.Now().Add(backlogMax)
			}
			if time.Now().After(until) { // however many still come: the stop has a limit
				if err == nil {
					handle(conn)
				}
				return
			}
			_ = ln.SetDeadline(time.Now().Add(backlogPause))
		}
		switch {
		case err == nil:
			retry = 0
			handle(conn)
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

// pause sleeps for d or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
