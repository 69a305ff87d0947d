// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// A Session is one client: its link, its port, its lifeline and its counters.
//
//	quiet --first frame or startDelay--> starting --port--> running --the port died--> starting
//	any state --the link ended--> closed
//	any state --Server.Detach--> detached: a value, of which Server.Attach makes another Session
//
// Its goroutines are run, which is the link's reader, keep, which starts the port and watches it, and, where there is something to
// watch, watchLifeline and lookAfter.
type Session struct {
	srv     *Server
	id      uint64
	name    string
	client  Client
	link    link.Link
	log     *slog.Logger
	began   time.Time
	ctx     context.Context // ends with the session
	cancel  context.CancelFunc
	wake    chan struct{} // closed when the port is wanted
	wakeOne sync.Once
	parts   sync.WaitGroup        // its goroutines but run
	still   chan struct{}         // closed when its reader has ended for Detach
	done    chan struct{}         // closed when nothing of the session runs any more
	reason  atomic.Pointer[error] // why End was called
	givenUp atomic.Bool           // see GiveUp
	first   firstStart
	phase   phase
	guard   Guard           // nil: none
	others  <-chan struct{} // closed when those that were attached with it need not be waited for
	come    chan<- struct{} // told when its port was tried first; nil if none waits for that

	watch    watch.Watch
	seen     bool        // a frame has come; used by the reader
	toStore  bool        // with its next frame; used by the reader
	stored   atomic.Bool // perhaps
	attached bool        // by Server.Attach; its begin is in the log already
	addrLogs int         // used by the reader
	news     atomic.Bool // an answer of DHCP told an address that has not been logged

	// send is set while the port runs. Frames are sent by the reader; those held before that by the keeper, under mu.
	send atomic.Pointer[func(frame.Batch)]

	mu       sync.Mutex // held while what was held is sent, which a back end may hold up
	held     []byte     // frames in wire form that wait for the port
	heldN    int
	dropHeld atomic.Uint64 // frames dropped because held was full, or the client left before its port

	telling sync.Mutex        // guards what follows; nothing waits while it is held
	gone    bool              // detached: the link is another session's
	live    network.Port      // whose counters are not in ports yet; nil: none
	ports   network.PortStats // of the ports so far; its maps never change
	learned []network.MAC     // addresses behind the last port
	letGo   time.Time         // when Theirs is closed at the latest; zero: not yet
}

func newSession(s *Server, id uint64, l link.Link, cl Client, guard Guard, saved []byte) *Session {
	cl.Transport = cmp.Or(cl.Transport, status.Stream)
	name := fmt.Sprintf("client %d", id)
	if cl.Name != "" {
		name += " (" + cl.Name + ")"
	}
	c := &Session{
		srv:    s,
		id:     id,
		name:   name,
		client: cl,
		link:   l,
		log:    s.opts.Log.With("client", id).With(cl.args()...),
		began:  time.Now(),
		wake:   make(chan struct{}),
		still:  make(chan struct{}),
		done:   make(chan struct{}),
		first:  firstStart{done: make(chan struct{})},
		others: opened,
	}
	if c.guard = guard; guard == nil && s.opts.Guard != nil {
		c.guard = s.opts.Guard(cl, c.log, saved)
	}
	c.toStore = s.opts.Store != nil && cl.Transport != status.Unixgram // which has the shared socket
	if cl.Start {
		c.want()
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// opened is the others of a session that was not attached.
var opened = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// run serves the client to its end.
func (c *Session) run() {
	defer close(c.done)
	c.logBegin()
	lifeline := c.openLifeline()
	c.part("keeping the client's port", c.keep)
	if lifeline != nil {
		c.part("watching the lifeline", func() { c.watchLifeline(lifeline) })
	}
	if c.needsLook() {
		c.part("looking after the client", c.lookAfter)
	}
	<-c.others
	err := c.guarded("reading from the client", func() error { return c.link.Run(c) })
	switch {
	case errors.Is(err, link.ErrDetached):
		close(c.still)
		<-c.ctx.Done()
		c.parts.Wait()
		return
	case errors.As(err, new(*panicError)):
		c.link.Drain()
	}
	if c.guarded("ending the session", func() error { c.end(err); return nil }) != nil {
		c.abandon()
	}
}

// part runs f in a goroutine. Its panic is the end of the session.
func (c *Session) part(doing string, f func()) {
	c.parts.Go(func() {
		if c.guarded(doing, func() error { f(); return nil }) != nil {
			c.shutdown(link.DrainOne)
		}
	})
}

// A panicError is a panic of one of the session's goroutines.
type panicError struct{ text string }

func (e *panicError) Error() string { return e.text }

// guarded calls f. A panic of it becomes an error.
func (c *Session) guarded(doing string, f func() error) (err error) {
	defer c.caught(doing, &err)
	return f()
}

// caught is deferred: it makes a panic, which it logs, the end of this session and of no other. With err the caller ends it.
func (c *Session) caught(doing string, err *error) {
	r := recover()
	if r == nil {
		return
	}
	c.log.Error("internal error: this client is closed, the others run on; please report it",
		"doing", doing, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	if err != nil {
		*err = &panicError{fmt.Sprintf("panic while %s: %v", doing, r)}
		return
	}
	c.shutdown(link.DrainOne)
}

// end ends the session, whose link's Run has returned err.
func (c *Session) end(err error) {
	c.phase.leaving.Store(true)
	if r := c.reason.Load(); r != nil && !left(err) {
		err = *r
	}
	c.logEnd(err)
	c.lastWords(err)
	// The port goes first: once it is closed nothing is delivered to the link any more.
	c.cancel()
	c.parts.Wait()
	c.dropHeld.Add(uint64(c.heldN)) // what its port was not there for
	faults.Point("perclient.end")
	st := c.link.Stats()
	c.close()
	c.srv.remove(c, c.info())
	c.summarise(err, st)
}

// abandon ends a session that could not be ended in order, since that panicked.
func (c *Session) abandon() {
	c.cancel()
	c.parts.Wait()
	c.close()
	c.srv.remove(c, Info{Peer: c.client.Peer})
}

// close closes the sockets that the session has, and before them its guard: the guest may come back at once.
func (c *Session) close() {
	if c.guard != nil {
		c.guard.Close()
	}
	_ = c.link.Close()
	c.client.Lifeline.Close()
	c.telling.Lock()
	defer c.telling.Unlock()
	c.client.Theirs.Close()
	c.client.Theirs = link.Descriptor{}
}

// shutdown ends the session's link.
func (c *Session) shutdown(sched link.DrainSchedule) {
	c.telling.Lock()
	defer c.telling.Unlock()
	if c.gone {
		return
	}
	c.phase.leaving.Store(true)
	c.link.Shutdown(sched)
}

// End ends the session in order; Done tells when nothing of it is left. reason is logged.
func (c *Session) End(reason error) {
	c.reason.CompareAndSwap(nil, &reason)
	c.shutdown(link.DrainOne)
}

// Done is closed when the session has ended, or was detached.
func (c *Session) Done() <-chan struct{} { return c.done }

// left reports that err means that the client has gone by itself. One that is killed with frames unread makes a reset.
func left(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
