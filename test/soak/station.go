// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/test/soak/ledger"
)

// A station is one connection of a guest to the daemon: the line, and what the ledger knows of it.
type station struct {
	r     *run
	line  *line
	conn  *ledger.Conn
	life  atomic.Int64  // of the daemon that serves it
	ended chan struct{} // closed when nothing is read any more
	over  atomic.Bool   // the daemon has ended it, or its life has ended

	stalled sync.RWMutex // held while nothing is to be read

	leaving  atomic.Bool // it is our end of it
	watching sync.WaitGroup
	also     func(f []byte) // sees frames behind the ledger; nil for nobody
}

// connect waits for the daemon and connects a guest to it, until ctx is done.
func (r *run) connect(ctx context.Context, via transport, guest uint32, mac func() net.HardwareAddr) *station {
	for {
		life, ok := r.daemon.wait(ctx)
		if !ok {
			return nil
		}
		dialing, cancel := context.WithTimeout(ctx, lineTimeout)
		x, err := r.place.dial(dialing, via)
		cancel()
		if err == nil {
			s := &station{r: r, line: x, ended: make(chan struct{})}
			s.life.Store(int64(life))
			s.conn = r.ledger.Open(guest, mac(), string(via))
			r.book.opened(s.conn)
			r.totals.connections.Add(1)
			r.totals.by(via).Add(1)
			return s
		}
		if ctx.Err() == nil && !r.daemon.excused(life) && !(timedOut(err) && r.strain.excuses()) {
			r.fail(refused, "guest %d: %v", guest, err)
		}
		r.totals.retries.Add(1)
		sleep(ctx, 50*time.Millisecond)
	}
}

// start begins to read.
func (s *station) start() {
	s.watching.Go(func() {
		defer close(s.ended)
		err := s.line.read(s.receive)
		if errors.Is(err, errStream) {
			s.conn.Seen.CutAtEnd.Store(true)
			// To who has said that it leaves the rest of a frame may be owed for ever.
			if !s.leaving.Load() && !s.r.daemon.excusedEnd(int(s.life.Load())) {
				s.r.fail(ledger.Cut, "%s: %v", s.conn, err)
			}
		}
		s.hasEnded(err)
		s.conn.Finish()
	})
	if s.line.lifeline != nil {
		s.watching.Go(func() {
			_, err := s.line.lifeline.Read(make([]byte, 1))
			if !errors.Is(err, os.ErrClosed) {
				s.hasEnded(err)
			}
		})
	}
}

func (s *station) receive(f []byte) {
	s.stalled.RLock()
	defer s.stalled.RUnlock()
	if s.r.tamper != nil {
		s.r.tamper(s, f)
	} else {
		s.conn.Receive(f)
	}
	if s.also != nil {
		s.also(f)
	}
}

// hasEnded is told that the daemon has ended the connection, and why.
func (s *station) hasEnded(err error) {
	s.over.Store(true)
	if s.leaving.Load() || s.r.ctx.Err() != nil {
		return
	}
	// In this order: if it may end, that had begun before.
	s.conn.Closing()
	if s.r.daemon.excusedEnd(int(s.life.Load())) || timedOut(err) && s.r.strain.excuses() {
		return
	}
	s.r.fail(disconnected, "%s: %v", s.conn, err)
}

// gone reports that the daemon has ended the connection, or has been stopped and s does not outlive that.
func (s *station) gone() bool {
	return s.over.Load() || !s.line.via.outlives() && s.r.daemon.excusedEnd(int(s.life.Load()))
}

// outbox collects frames to be sent in one go.
type outbox struct {
	wire   []byte
	frames int
	bytes  int
}

// add composes a frame of n bytes.
func (s *station) add(o *outbox, src net.HardwareAddr, to ledger.Target, n int) {
	n = max(n, ledger.MinLen)
	start := len(o.wire)
	o.wire = append(o.wire, 0, 0, 0, 0)
	o.wire = s.conn.Compose(o.wire, src, to, n)
	frame.PutPrefix(o.wire[start:], n)
	o.frames++
	o.bytes += n
}

// send sends what is in o and empties it. It reports whether the connection is fit for more.
func (s *station) send(o *outbox) bool {
	defer func() { *o = outbox{wire: o.wire[:0]} }()
	if o.frames == 0 {
		return !s.gone()
	}
	if err := s.line.send(o.wire); err != nil {
		return s.failed(err)
	}
	s.conn.Seen.SentFrames.Add(uint64(o.frames))
	s.conn.Seen.SentBytes.Add(uint64(o.bytes))
	s.r.totals.sent.Add(uint64(o.frames))
	return true
}

// failed is told that frames could not be sent. How many of them the daemon has read is not known. It reports whether the
// connection is fit for more: one that outlives the daemon is as soon as there is one.
func (s *station) failed(err error) bool {
	s.r.book.uncertain(s.conn)
	if s.line.via.outlives() && noDaemon(err) {
		if !s.r.daemon.excusedEnd(int(s.life.Load())) && s.r.ctx.Err() == nil {
			s.r.fail(refused, "%s: while the daemon serves: %v", s.conn, err)
		}
		life, ok := s.r.daemon.wait(s.r.ctx)
		s.life.Store(int64(life))
		return ok
	}
	s.hasEnded(err)
	return false
}

// noDaemon reports that nobody listens at a datagram socket's path.
func noDaemon(err error) bool {
	for _, e := range []error{syscall.ECONNREFUSED, syscall.ENOENT, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// orderly ends the connection so that both sides know everything: what was sent has been read, what was for the client received.
func (s *station) orderly() {
	sent := s.allRead()
	s.leaving.Store(true)
	s.conn.Closing()
	switch x := s.line; {
	case x.via.stream():
		s.conn.Seen.AllSent.Store(sent)
		_ = x.conn.CloseWrite()
		s.conn.Seen.AllReceived.Store(s.atEnd(quietEnd))
	case x.via == viaAdoptBare, x.via == viaAdoptForgets: // the daemon learns by the end being closed
		s.conn.Seen.AllSent.Store(sent)
	default:
		s.conn.Seen.AllSent.Store(sent)
		x.unlink()
		if x.lifeline != nil {
			_ = x.lifeline.Close()
		}
		told := s.r.book.told(s.r.ctx, s.conn, quietEnd)
		s.conn.Seen.AllReceived.Store(told && s.drained())
	}
	s.close()
}

// allRead waits until the daemon has read everything from the client, and reports it.
func (s *station) allRead() bool {
	for end := time.Now().Add(quietEnd); time.Now().Before(end); {
		n, err := s.line.unsent()
		if err != nil || s.gone() {
			return false
		}
		if n == 0 {
			return true
		}
		sleep(s.r.ctx, time.Millisecond)
	}
	return false
}

// atEnd waits until the daemon has ended the connection.
func (s *station) atEnd(patience time.Duration) bool {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-s.ended:
		return true
	case <-t.C:
		return false
	}
}

// drained waits until nothing is left to be read from a datagram socket to which nobody sends any more.
func (s *station) drained() bool {
	for end := time.Now().Add(quietEnd); time.Now().Before(end); {
		n, err := s.line.unread()
		if err != nil {
			return false
		}
		if n == 0 {
			return true
		}
		sleep(s.r.ctx, time.Millisecond)
	}
	return false
}

// abrupt ends the connection as if the client had been killed.
func (s *station) abrupt() {
	s.leaving.Store(true)
	s.conn.Closing()
	s.close()
}

// afterStop ends the connection of a client whose daemon has been stopped: what it still sent is received.
func (s *station) afterStop() {
	s.leaving.Store(true)
	s.conn.Closing()
	if s.line.via.stream() {
		s.conn.Seen.AllReceived.Store(s.atEnd(quietEnd) && s.r.daemon.inOrder(int(s.life.Load())))
	} else if s.r.daemon.waitEnd(s.r.ctx, int(s.life.Load())) {
		s.conn.Seen.AllReceived.Store(s.drained() && s.r.daemon.inOrder(int(s.life.Load())))
	}
	s.close()
}

// close closes what is open and waits for the readers.
func (s *station) close() {
	if !s.line.via.stream() && s.conn.Seen.AllReceived.Load() {
		_ = s.line.conn.SetReadDeadline(time.Unix(1, 0)) // the frame that is being judged is the last
		<-s.ended
	}
	s.line.discard()
	s.watching.Wait()
	s.r.book.finished(s.conn)
}

// sleep waits for d or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
