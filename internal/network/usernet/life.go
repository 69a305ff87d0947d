// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
)

const (
	// helloTime is how long a gateway may take from its start until it is ready.
	helloTime = 10 * time.Second
	// maxLines is how many lines of a gateway are logged between two ticks.
	maxLines = 100
	// maxText is the longest text of a gateway that is logged or shown, in bytes.
	maxText = 1 << 10
	// bufferSize is how much is read from a gateway at once, in bytes. The longest message fits in.
	bufferSize = 256 << 10
)

var (
	errLeft = errors.New("the gateway goes on without this daemon")
	errHung = errors.New("it does not answer")
)

// A life is one gateway's process on one pair of sockets.
type life struct {
	sup  *supervisor
	conn *gateway.Pair
	proc *os.Process
	buf  []byte
	have int  // bytes in buf
	bulk bool // the last read brought much

	began     time.Time
	inherited bool
	ready     bool // has said hello
	lines     int  // logged since the last tick

	unanswered int           // ticks; guarded by sup.mu
	late       chan int      // forwards to pass
	hello      chan struct{} // closed when ready

	turn sync.Mutex // of the goroutine that writes
	open bool       // clients' readers may write themselves
	left []byte     // the end of what was begun
	head []byte

	done chan struct{} // closed by stop: the writer is to end
	stop func()
	dead atomic.Bool // its process has been ended
}

func (s *supervisor) newLife(conn *net.UnixConn, p *os.Process) (*life, error) {
	pair, err := gateway.PairOf(conn)
	if err != nil {
		return nil, err
	}
	l := &life{
		sup: s, conn: pair, proc: p, buf: make([]byte, bufferSize), began: time.Now(),
		late: make(chan int, len(s.net.opts.Forwards)), hello: make(chan struct{}), done: make(chan struct{}),
	}
	l.stop = sync.OnceFunc(func() { close(l.done) })
	return l, nil
}

// spawn starts a gateway.
func (s *supervisor) spawn() (*life, error) {
	ours, theirs, err := gateway.NewPair()
	if err != nil {
		return nil, err
	}
	p, err := s.net.opts.Start(theirs)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	return s.newLife(ours, p)
}

// run serves the gateway until it ends, and tells why that was.
func (l *life) run() error {
	var writer sync.WaitGroup
	writer.Go(l.write)
	err := l.read(l.sup.net.opts.tune.tick)
	if errors.Is(err, errLeft) {
		writer.Wait()
		return err
	}
	l.end()
	writer.Wait()
	if how, _ := l.proc.Wait(); how != nil && !how.Success() && errors.Is(err, io.EOF) {
		err = errors.New(how.String())
	}
	return err
}

// end closes the pair, and ends the gateway and the writer.
func (l *life) end() {
	l.dead.Store(true)
	l.stop()
	_ = l.conn.Close()
	_ = l.proc.Kill()
}

// read handles what comes from the gateway until the end, and asks it at each tick whether it works.
func (l *life) read(tick time.Duration) error {
	for {
		if !l.sup.deadline(l, time.Now().Add(tick)) {
			return errLeft
		}
		err := l.receive()
		for err == nil {
			err = l.receive()
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if err := l.tick(); err != nil {
			return err
		}
	}
}

// deadline sets that of l's reader, unless this daemon goes.
func (s *supervisor) deadline(l *life, at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leaving {
		_ = l.conn.SetReadDeadline(at)
	}
	return !s.leaving
}

// tick asks the gateway whether it works.
func (l *life) tick() error {
	s := l.sup
	for _, i := range s.net.fwd.late() {
		s.net.tellForward(i, s.net.opts.Forwards[i])
		l.late <- i // once for each
	}
	s.queue.wake()
	l.lines = 0
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != running {
		if time.Since(l.began) > helloTime {
			return errHung
		}
		return nil
	}
	if l.unanswered >= hangTicks {
		return errHung
	}
	l.unanswered++
	s.question()
	return nil
}

// receive reads once and handles what is there.
func (l *life) receive() error {
	n, err := l.readMore()
	if err != nil {
		return err
	}
	p := gateway.Parser{Frames: l.frames, Message: l.message, MaxMessage: gateway.MaxMessage}
	l.have += n
	used, err := p.Parse(l.buf[:l.have])
	l.have = copy(l.buf, l.buf[used:l.have])
	if err != nil {
		err = fmt.Errorf("it sent what cannot be: %w", err)
	}
	return err
}

// bulk is from how much in one read on, in bytes, more is taken to be on its way.
const bulk = 16 << 10

// readMore reads once. In the midst of a transfer it lets the gateway run before it goes to sleep: to be woken for each packet would
// cost more than to read it.
func (l *life) readMore() (n int, err error) {
	if l.bulk {
		if n, err = l.conn.ReadWire(l.buf[l.have:], false); n == 0 && err == nil {
			gateway.Yield()
		}
	}
	if n == 0 && err == nil {
		n, err = l.conn.ReadWire(l.buf[l.have:], true)
	}
	l.bulk = n >= bulk
	return n, err
}
