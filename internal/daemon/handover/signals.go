// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// stopSignals end a daemon in order.
var stopSignals = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM}

// early gets the stop signals of an image that takes over, from before main on: without it they are deadly until the daemon
// calls signal.Notify. It is nil in every other process.
//
// What comes between the exec and this ends the process, and so does what waited for the exec's end: Go's runtime unblocks
// stop signals before it has handlers, whatever mask it was started with.
var early = catchEarly()

func catchEarly() chan os.Signal {
	fd, err := strconv.Atoi(os.Getenv(envName))
	if err != nil || fd <= 2 || trusted(fd) != nil {
		return nil // not ours: nobody would ask for what was caught
	}
	c := make(chan os.Signal, 2*len(stopSignals))
	signal.Notify(c, stopSignals...)
	return c
}

// raiseEarly raises what came early again, for those who have called signal.Notify meanwhile.
func raiseEarly() {
	if early == nil {
		return
	}
	signal.Stop(early)
	for {
		select {
		case s := <-early:
			if s, ok := s.(syscall.Signal); ok {
				_ = syscall.Kill(os.Getpid(), s)
			}
		default:
			return
		}
	}
}
