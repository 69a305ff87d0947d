// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"
)

const (
	// strainTick is how often it is looked whether this process gets to run, and strainLate how late it is then if it does not.
	strainTick = 50 * time.Millisecond
	strainLate = 300 * time.Millisecond
	// strainTime is how long after that nothing is said against the daemon for being slow: it is as little served.
	strainTime = 30 * time.Second
)

// A strain tells whether the machine has so much else to do that time limits mean nothing.
type strain struct {
	last  atomic.Int64 // when it was noticed last, in Unix nanoseconds
	total atomic.Int64 // nanoseconds
}

// watch looks until ctx is done.
func (s *strain) watch(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		sleep(ctx, strainTick)
		if late := time.Since(began) - strainTick; late > strainLate {
			s.last.Store(time.Now().UnixNano())
			s.total.Add(int64(late))
		}
	}
}

// excuses reports whether the machine was too busy lately.
func (s *strain) excuses() bool {
	return time.Since(time.Unix(0, s.last.Load())) < strainTime
}

// timedOut reports that err says that something took too long.
func timedOut(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}
