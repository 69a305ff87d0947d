// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"errors"
	"sync/atomic"
	"time"
)

const (
	// lookTime is how long a path may take to be looked up, and maxLooks how many may take longer at once: a client may name a
	// path in a file system that does not answer.
	lookTime = 500 * time.Millisecond
	maxLooks = 8

	// slowLook is how long a look-up may take before new clients have to wait lookRest times as long.
	slowLook = 50 * time.Millisecond
	lookRest = 5
)

// errSlow: a path was not looked up.
var errSlow = errors.New("the file system does not answer in time")

// A looker looks paths up for those that must not be held up.
type looker struct {
	busy atomic.Int32
	rest atomic.Int64 // until when new clients have to wait, in Unix nanoseconds
}

// resting reports whether no new clients are looked up at time now.
func (l *looker) resting(now time.Time) bool { return now.UnixNano() < l.rest.Load() }

// look returns what f does, or errSlow when that takes too long; what f returns after that is given to undo, if not nil.
func look[T any](l *looker, f func() T, undo func(T)) (v T, err error) {
	if l.busy.Add(1) > maxLooks {
		l.busy.Add(-1)
		return v, errSlow
	}
	done, gone := make(chan T), make(chan struct{})
	defer close(gone)
	go func() {
		defer l.busy.Add(-1)
		began := time.Now()
		v := f()
		if d := time.Since(began); d > slowLook {
			l.rest.Store(time.Now().Add(lookRest * d).UnixNano())
		}
		select {
		case done <- v:
		case <-gone:
			if undo != nil {
				undo(v)
			}
		}
	}()
	t := time.NewTimer(lookTime)
	defer t.Stop()
	select {
	case v = <-done:
		return v, nil
	case <-t.C:
		return v, errSlow
	}
}

// check is t.check within lookTime.
func (l *looker) check(t Trust, path string) (*target, error) {
	type result struct {
		t   *target
		err error
	}
	r, err := look(l, func() result {
		t, err := t.check(path)
		return result{t, err}
	}, func(r result) {
		if r.t != nil {
			r.t.close()
		}
	})
	if err != nil {
		return nil, &untrusted{Path: path, Reason: slow, Err: err, Advice: adviceFor(slow)}
	}
	return r.t, r.err
}

// same is t.same within lookTime. What cannot be found out in time is taken for true: a client is not ended because a file system,
// or the whole machine, is slow; the next look tells.
func (l *looker) same(t *target) bool {
	same, err := look(l, t.same, nil)
	return errors.Is(err, errSlow) || err == nil && same
}
