// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"os"
	"time"
)

const (
	// execLimit is how long an exec may take. It is a matter of milliseconds, but on macOS Go waits before it, possibly for ever: see
	// docs/upstream/go-preemptone.md.
	execLimit = 5 * time.Second

	// execAlarm is when the system ends a process that could not end itself. Whoever waits in the exec holds a lock that the scheduler
	// needs, so that no goroutine may run any more: with GOMAXPROCS=1, or once the garbage collector has begun to stop the others.
	execAlarm = 6 // seconds
)

// endUnlessReplaced ends the process unless the exec happens in time, so that the service manager starts it again. The
// returned function is to be called when the exec has failed.
func endUnlessReplaced(log *slog.Logger) (undo func()) {
	timer := time.AfterFunc(execLimit, func() {
		log.Error("upgrade: exec did not happen in 5 s, ending so that the service manager starts the program again")
		os.Exit(1)
	})
	undoAlarm := endAfter(execAlarm)
	return func() {
		undoAlarm()
		timer.Stop()
	}
}
