// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"
)

// LockGiven claims path for a daemon whose socket there was made by a service manager, which keeps it: it is not probed, and
// Bind and RemoveIfOurs are not for it. Another daemon that has the lock is stopping, as the manager starts one at a time;
// LockGiven waits up to 3 s for it.
func LockGiven(ctx context.Context, path string, log *slog.Logger) (*SocketLock, error) {
	l := &SocketLock{path: path, log: log}
	deadline := time.Now().Add(lockWait)
	for {
		err := l.tryLock()
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, syscall.EAGAIN) {
			return nil, textError("bind", err)
		}
		if time.Now().After(deadline) {
			return nil, errInUse
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}
