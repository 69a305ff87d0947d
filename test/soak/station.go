// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
	"github.com/socket-vmnet2/socket_vmnet2/test/soak/ledger"
)

const (
	dialTimeout = 20 * time.Second // an upgrade may lie in between
	quietEnd    = 10 * time.Second // for the daemon to end a connection whose client has said that it sends no more
)

// outlivesDaemon is the way in of clients that go on when the daemon has been started again.
const outlivesDaemon = "path unconnected"

// A station is one connection of a guest to the daemon: the link, and what the ledger knows of it.
type station struct {
	r     *run
	way   vnettest.Transport
	link  fakeguest.Link
	conn  *ledger.Conn
	life  atomic.Int64  // of the daemon that serves it
	ended chan struct{} // closed when nothing is read any more
	over  atomic.Bool   // the daemon has ended it

	stalled sync.RWMutex // held while nothing is to be read

	also func(f []byte) // sees frames behind the ledger; nil: not used
	out  [][]byte       // frames to be sent in one go
	buf  []byte         // they lie there
}

// connect waits for the daemon and connects a guest to it, until ctx is done: it returns nil then. also sees what comes.
func (r *run) connect(ctx context.Context, way vnettest.Transport, guest uint32, mac func() net.HardwareAddr, also func([]byte)) *station {
	for {
		life, ok := r.daemon.wait(ctx)
		if !ok {
			return nil
		}
		before := r.daemon.moment()
		dialing, cancel := context.WithTimeout(ctx, dialTimeout)
		l, err := way.Dial(dialing)
		cancel()
		if err == nil {
			s := &station{r: r, way: way, link: l, ended: make(chan struct{}), also: also}
			s.life.Store(int64(life))
			s.conn = r.ledger.Open(guest, mac(), way.Name)
			r.book.opened(s)
			if strings.HasPrefix(way.Name, "adopt") && r.daemon.moment() != before {
				r.book.uncertain(s) // the image before may have served it first
			}
			r.totals.connections.Add(1)
			r.totals.count(&r.totals.ways, way.Name, 1)
			if !s.outlives() {
				r.mortal.Add(1)
			}
			_ = l.Start(s.receive, s.end) // a socket's never fails
			return s
		}
		if ctx.Err() == nil && !r.daemon.excused(life) {
			r.fail(refused, "guest %d: %v", guest, err)
		}
		r.totals.retries.Add(1)
		sleep(ctx, 50*time.Millisecond)
	}
}

func (s *station) outlives() bool { return s.way.Name == outlivesDaemon }

// excused reports that the connection may end: the daemon that served the station has been stopped. An upgrade is no excuse.
func (s *station) excused() bool {
	d := s.r.daemon
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.life != int(s.life.Load()) || d.phase == phaseStopping || d.phase == phaseDown
}

func (s *station) receive(f []byte) {
	s.stalled.RLock()
	defer s.stalled.RUnlock()
	s.conn.Receive(f)
	if s.also != nil {
		s.also(f)
	}
}

// end is told that nothing comes any more, and why.
func (s *station) end(err error) {
	switch {
	case errors.Is(err, io.EOF):
		s.conn.Seen.AllReceived.Store(true)
	case !s.conn.Leaving() && !s.excused() && (errors.Is(err, fakeguest.ErrBadFrame) || errors.Is(err, io.ErrUnexpectedEOF)):
		s.r.fail(ledger.Cut, "%s: %v", s.conn, err)
	}
	s.hasEnded(err)
	s.conn.Finish()
	close(s.ended)
}

// hasEnded is told that the daemon has ended the connection, and why.
func (s *station) hasEnded(err error) {
	s.over.Store(true)
	if s.conn.Leaving() || s.r.ctx.Err() != nil {
		return
	}
	// In this order: if it may end, that had begun before.
	s.conn.Closing()
	if !s.excused() && !s.unheard() {
		s.r.fail(disconnected, "%s: %v", s.conn, err)
	}
}

// unheard reports that the daemon may have refused s for want of descriptors, which this way in does not tell a client.
func (s *station) unheard() bool {
	d, opened := s.r.daemon, int64(s.conn.Opened)
	return s.way.Name == "adopt dgram" && opened > d.shortSince.Load()-int64(time.Second) && (opened < d.shortUntil.Load() || d.shortUntil.Load() < d.shortSince.Load())
}

// gone reports that the daemon has ended the connection, or has been stopped and s does not outlive that.
func (s *station) gone() bool { return s.over.Load() || !s.outlives() && s.excused() }

// add composes a frame of n bytes.
func (s *station) add(to ledger.Target, n int) {
	start := len(s.buf)
	s.buf = s.conn.Compose(s.buf, to, n)
	s.out = append(s.out, s.buf[start:])
}

// send sends the frames that were added. It reports whether the connection is fit for more.
func (s *station) send() bool {
	defer func() { s.out, s.buf = s.out[:0], s.buf[:0] }()
	if len(s.out) == 0 {
		return !s.gone()
	}
	if err := s.link.Send(s.out...); err != nil {
		return s.failed(err)
	}
	for _, f := range s.out {
		s.conn.Seen.SentBytes.Add(uint64(len(f)))
	}
	s.conn.Seen.SentFrames.Add(uint64(len(s.out)))
	s.r.totals.sent.Add(uint64(len(s.out)))
	return true
}

// failed is told that frames could not be sent. How many of them the daemon has read is not known. It reports whether the
// connection is fit for more: one that outlives the daemon is as soon as there is one.
func (s *station) failed(err error) bool {
	s.r.book.uncertain(s)
	noDaemon := []error{syscall.ECONNREFUSED, syscall.ENOENT, syscall.ECONNRESET, syscall.EPIPE} // none listens at the path
	if !s.outlives() || !slices.ContainsFunc(noDaemon, func(e error) bool { return errors.Is(err, e) }) {
		s.hasEnded(err)
		return false
	}
	if !s.excused() && s.r.ctx.Err() == nil {
		s.r.fail(refused, "%s: while the daemon serves: %v", s.conn, err)
	}
	life, ok := s.r.daemon.wait(s.r.turn)
	s.life.Store(int64(life))
	return ok
}

// close ends the connection. In order, a stream's client tells that it sends no more, has everything read, and reads to the end; so
// it does where the daemon has been stopped. Otherwise it ends as if the client had been killed.
func (s *station) close(orderly bool) {
	stopped := s.gone()
	s.conn.Closing()
	if x, ok := s.link.(interface{ CloseWrite() error }); ok && (orderly || stopped) {
		if !stopped {
			_ = x.CloseWrite()
		}
		select {
		case <-s.ended:
			s.conn.Seen.AllSent.Store(!stopped && s.conn.Seen.AllReceived.Load())
		case <-time.After(quietEnd):
		}
	}
	_ = s.link.Close()
	<-s.ended
	if stopped && !s.r.daemon.inOrder(int(s.life.Load())) {
		s.conn.Seen.AllReceived.Store(false)
	}
	s.r.book.finished(s)
	if !s.outlives() {
		s.r.mortal.Add(-1)
	}
}

// sleep waits for d or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
