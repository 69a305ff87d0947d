// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"syscall"
	"time"
)

const (
	// warnEvery limits the warnings about addresses that are not served, those for one reason each: who sends without an
	// address for ever does not keep others from being told theirs.
	warnEvery = 10 * time.Second

	// badFor is how long an address that was refused is not looked at again, and maxBad how many of them are remembered.
	badFor = time.Second
	maxBad = 256
)

// refusals counts the datagrams that nobody takes, remembers their addresses for a moment, and warns.
type refusals struct {
	log *slog.Logger

	mu     sync.Mutex
	n      map[cause]uint64
	warned map[cause]time.Time // when the last warning was
	broke  time.Time           // when a panic was logged last
	unsaid map[cause]int       // datagrams dropped since
	recent map[speaker]refusal
}

// A speaker is a user at an address. Users that send from the same address are told apart: one that once had the path may go on
// sending by its name, and must not keep the next owner out.
type speaker struct {
	path string
	uid  uint32 // 0 where the system does not tell
}

// A refusal is why an address was refused, and until when that is taken as known.
type refusal struct {
	reason cause
	until  time.Time
}

// restore begins with the counters of another process image.
func (r *refusals) restore(n map[cause]uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for reason, n := range n {
		r.count(reason, 0)
		r.n[reason] = n
	}
}

// counts is a copy of the counters.
func (r *refusals) counts() map[cause]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.n)
}

// recently reports whether uid was refused at name a moment ago, and counts its n datagrams then.
func (r *refusals) recently(name []byte, uid uint32, now time.Time, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	bad, ok := r.recent[speaker{string(name), uid}]
	if !ok || now.After(bad.until) {
		return false
	}
	r.count(bad.reason, n)
	return true
}

// count is called with mu held.
func (r *refusals) count(reason cause, n int) {
	if r.n == nil {
		r.n, r.warned, r.unsaid = map[cause]uint64{}, map[cause]time.Time{}, map[cause]int{}
	}
	r.n[reason] += uint64(n)
	r.unsaid[reason] += n
}

// add counts n datagrams without a word.
func (r *refusals) add(reason cause, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(reason, n)
}

// bad counts n datagrams of an address that says by itself why it is refused.
func (r *refusals) bad(name []byte, reason cause, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(reason, n)
	r.warn(reason, &untrusted{Path: string(name), Reason: reason, Advice: adviceFor(reason)})
}

// failed counts n datagrams that uid has sent from an address that could not be made a client, and remembers that.
func (r *refusals) failed(path string, uid uint32, err error, now time.Time, n int) {
	reason := refused
	if u, ok := errors.AsType[*untrusted](err); ok {
		reason = u.Reason
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(reason, n)
	r.note(speaker{path, uid}, reason, now)
	r.warn(reason, err)
}

// remember has what uid, or root in its place, sends from path refused for a moment.
func (r *refusals) remember(path string, uid uint32, reason cause) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.note(speaker{path, uid}, reason, now)
	r.note(speaker{path, 0}, reason, now)
}

// note is remember with mu held.
func (r *refusals) note(who speaker, reason cause, now time.Time) {
	if r.recent == nil {
		r.recent = map[speaker]refusal{}
	}
	if len(r.recent) >= maxBad {
		maps.DeleteFunc(r.recent, func(_ speaker, b refusal) bool { return now.After(b.until) })
		if len(r.recent) >= maxBad {
			clear(r.recent)
		}
	}
	r.recent[who] = refusal{reason: reason, until: now.Add(badFor)}
}

// forged counts n datagrams that somebody else than the socket's owner has sent by its name.
func (r *refusals) forged(path string, from sender, owner uint32, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(forged, n)
	r.warn(forged, forgedBy(path, from, owner))
}

// unreachable is the error of an address that is trusted, and that nothing can be sent to.
func unreachable(path string, err error) error {
	advice := "see the error"
	switch {
	case errors.Is(err, syscall.EACCES):
		advice = "let the daemon's user write to the client's socket (its mode and owner)"
	case errors.Is(err, syscall.EPROTOTYPE):
		advice = "the client's socket must be a datagram socket"
	case isGone(err):
		advice = "no process has the socket any more: bind it again"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = errno // without the path that it was asked by
	}
	return &untrusted{Path: path, Reason: refused, Err: err, Advice: advice}
}

// forgedBy is the error of an address that somebody else uses.
func forgedBy(path string, from sender, owner uint32) error {
	err := fmt.Errorf("sent by user %d, the socket belongs to user %d", from.uid, owner)
	return &untrusted{Path: path, Reason: forged, Err: err, Advice: adviceFor(forged)}
}

// warn logs err, which has the reason, unless that was done a short while ago, and how many datagrams were dropped for it
// since. The caller holds mu.
func (r *refusals) warn(reason cause, err error) {
	now := time.Now()
	if now.Sub(r.warned[reason]) < warnEvery {
		return
	}
	dropped := r.unsaid[reason]
	r.warned[reason], r.unsaid[reason] = now, 0
	u, ok := errors.AsType[*untrusted](err)
	if !ok {
		r.log.Warn("datagram dropped: its sender is not served", "error", err, "dropped", dropped)
		return
	}
	args := []any{"address", u.Path, "dropped", dropped, "advice", u.Advice}
	if u.Err != nil {
		args = append(args, "error", u.Err)
	}
	r.log.Warn("datagram dropped: "+u.Reason.text(), args...)
}

// text is the reason in a sentence.
func (r cause) text() string {
	switch r {
	case isLink, noSocket:
		return "its address is " + string(r)
	}
	return "its address is not served: " + string(r)
}
