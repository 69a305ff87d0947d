// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

const (
	// warnEvery limits the warnings about addresses that are not served, those for one reason each: a client that sends without an
	// address for ever does not keep others from being told theirs.
	warnEvery = 10 * time.Second

	// badFor is how long an address that was refused is not looked at again, and maxBad how many of them are remembered.
	badFor = time.Second
	maxBad = 256
)

// A cause is why an address is not trusted. It is a key for counters and a part of untrusted's text.
type cause string

// The reasons.
const (
	unbound   cause = "unbound"
	abstract  cause = "abstract"
	relative  cause = "relative"
	tooLong   cause = "too long"
	ownPath   cause = "own path"
	vanished  cause = "vanished"
	noSocket  cause = "not a socket"
	isLink    cause = "a link"
	ownerRoot cause = "owned by root"
	forged    cause = "forged"
	foreign   cause = "another user's"
	loop      cause = "looping" // sent by the daemon itself
	slow      cause = "slow"    // on a file system that may not answer, or one of too many that are looked at
	refused   cause = "refused"
	early     cause = "early" // before the socket was set up
)

// advice is what a user does about a cause.
var advice = map[cause]string{
	unbound:  "bind the client's socket to a path, else nothing can be sent back",
	abstract: "bind the client's socket to a path: abstract names have no owner that could be checked",
	relative: "bind the client's socket to an absolute path: a relative one means something else in this process",
	tooLong:  "bind the client's socket to a shorter path",
	ownPath:  "this is a socket of the daemon: bind the client's socket to a path of its own",
	vanished: "it cannot be found at this path by the daemon: keep the socket there, and do not bind it in another root directory",
	noSocket: "the path must be the socket itself",
	isLink:   "the path must be the socket itself",
	ownerRoot: "have socket_vmnet2 exec --dgram run the client, or give it a descriptor from SOCKET.d/attach; " +
		"or run it as another user, or start the daemon with --allow-uid 0",
	forged:  "the sender is not the socket's owner: what binds a socket must use it",
	foreign: "hand the socket over as the user who runs the virtual machine",
	loop:    "a socket that was handed over to the daemon leads to the daemon itself: connect it to the virtual machine",
	slow:    "bind the client's socket in a local directory, best beside the daemon's",
	refused: "see the error",
}

// An untrusted says why an address is not served.
type untrusted struct {
	Path   string // as the sender bound it, may be anything
	Reason cause
	Err    error  // the system's, may be nil
	Advice string // what to do
}

func refuse(path string, reason cause, err error) *untrusted {
	return &untrusted{Path: path, Reason: reason, Err: err, Advice: advice[reason]}
}

func (e *untrusted) Error() string {
	s := fmt.Sprintf("client address %q: %s", e.Path, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + ": " + e.Advice
}

// Unwrap returns the system's error.
func (e *untrusted) Unwrap() error { return e.Err }

// unreachable is the error of an address that is trusted, and that nothing can be sent to.
func unreachable(path string, err error) error {
	e := refuse(path, refused, err)
	switch {
	case errors.Is(err, syscall.EACCES):
		e.Advice = "let the daemon's user write to the client's socket (its mode and owner)"
	case errors.Is(err, syscall.EPROTOTYPE):
		e.Advice = "the client's socket must be a datagram socket"
	case errors.Is(err, syscall.EPERM):
		e.Advice = "it is connected to a socket that is gone: start it again"
	case isGone(err):
		e.Advice = "no process has the socket any more: bind it again"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		e.Err = errno // without the path that it was asked by
	}
	return e
}

// forgedBy is the error of an address that another user than its owner uses.
func forgedBy(path string, from sender, owner uint32) error {
	return refuse(path, forged, fmt.Errorf("sent by user %d, the socket belongs to user %d", from.uid, owner))
}

// Refusals count what no client takes, remember its addresses for a moment, and warn.
type Refusals struct {
	log *slog.Logger

	mu     sync.Mutex
	n      map[cause]*tally
	recent map[speaker]bad
}

// NewRefusals makes Refusals that warn to log.
func NewRefusals(log *slog.Logger) *Refusals {
	return &Refusals{log: log, n: map[cause]*tally{}, recent: map[speaker]bad{}}
}

// A tally counts what was refused for one reason.
type tally struct {
	status.Refusal
	told uint64    // of Count, when the last warning was
	at   time.Time // of that
}

// List are the refusals so far, by reason.
func (r *Refusals) List() []status.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]status.Refusal, 0, len(r.n))
	for _, t := range r.n {
		list = append(list, t.Refusal)
	}
	slices.SortFunc(list, func(a, b status.Refusal) int { return cmp.Compare(a.Reason, b.Reason) })
	return list
}

// A speaker is a user at an address. Users that send from the same address are told apart: one that once had the path may go on
// sending by its name, and must not keep the next owner out.
type speaker struct {
	path string
	uid  uint32 // 0 where the system does not tell
}

// A bad is why an address was refused, and until when that is taken as known.
type bad struct {
	reason cause
	until  time.Time
}

// count counts n datagrams without a word. The caller holds mu.
func (r *Refusals) count(reason cause, n int) *tally {
	t := r.n[reason]
	if t == nil {
		t = &tally{Refusal: status.Refusal{Reason: string(reason)}}
		r.n[reason] = t
	}
	t.Count, t.Last = t.Count+uint64(n), time.Now().UTC()
	return t
}

// add counts n datagrams without a word.
func (r *Refusals) add(reason cause, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(reason, n)
}

// recently reports whether uid was refused at name a moment ago, and counts its n datagrams then.
func (r *Refusals) recently(name []byte, uid uint32, now time.Time, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.recent[speaker{string(name), uid}]
	if !ok || now.After(b.until) {
		return false
	}
	r.count(b.reason, n)
	return true
}

// remember has what uid sends from path refused for a moment.
func (r *Refusals) remember(path string, uid uint32, reason cause) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if len(r.recent) >= maxBad {
		maps.DeleteFunc(r.recent, func(_ speaker, b bad) bool { return now.After(b.until) })
		if len(r.recent) >= maxBad {
			clear(r.recent)
		}
	}
	r.recent[speaker{path, uid}] = bad{reason: reason, until: now.Add(badFor)}
}

// failed counts n datagrams that uid has sent from path, which could not be made a client, and remembers that.
func (r *Refusals) failed(path string, uid uint32, err error, n int) {
	u := untrustedBy(path, err)
	r.remember(path, uid, u.Reason)
	r.tell(u, n)
}

// untrustedBy is err as one of the address path.
func untrustedBy(path string, err error) *untrusted {
	if u, ok := errors.AsType[*untrusted](err); ok {
		return u
	}
	return refuse(path, refused, err)
}

// tell counts n datagrams that were dropped because of u, and logs that, unless its reason was logged a short while ago, and how many
// were dropped for it since.
func (r *Refusals) tell(u *untrusted, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.count(u.Reason, n)
	t.From, t.Advice = fmt.Sprintf("datagrams from %q", u.Path), u.Advice
	if u.Err != nil {
		t.From += " (" + u.Err.Error() + ")"
	}
	if t.Last.Sub(t.at) < warnEvery {
		return
	}
	args := []any{"address", u.Path, "dropped", t.Count - t.told, "advice", u.Advice}
	t.told, t.at = t.Count, t.Last
	if u.Err != nil {
		args = append(args, "error", u.Err)
	}
	r.log.Warn("datagram dropped: its address is not served: "+string(u.Reason), args...)
}
