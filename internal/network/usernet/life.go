// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

const (
	// helloTime is how long a gateway may take from its start until it is ready.
	helloTime = 10 * time.Second
	// maxLines is how many lines of a gateway are logged between two ticks.
	maxLines = 100
	// maxText is the longest text of a gateway that is logged or shown, in bytes.
	maxText = 1 << 10
)

var (
	errLeft    = errors.New("the gateway goes on without this daemon")
	errHung    = errors.New("it does not answer")
	errForeign = errors.New("frames in the name of others")
)

// A life is one gateway's process on one pair of sockets. One goroutine reads from it, and one writes what clients' readers leave to it.
type life struct {
	sup  *supervisor
	conn *gateway.Pair
	proc *os.Process

	// Touched by the reader only.
	began      time.Time
	ready      bool // has said hello
	lines      int  // logged since the last tick
	unanswered int  // ticks

	late chan int    // forwards to pass
	dead atomic.Bool // its process has been ended

	ahead atomic.Int64 // frames that it was given and has not handled

	turn sync.Mutex // of the goroutine that writes
	left []byte     // what is to be written before anything else: the begin of its life, or the end of what was begun
	head []byte
	next []byte // a turn of the queue
	away bool   // nothing more is written
}

func (s *supervisor) newLife(conn *net.UnixConn, p *os.Process, rest []byte) (*life, error) {
	pair, err := gateway.PairOf(conn, rest)
	if err != nil {
		return nil, err
	}
	pair.Yields = true
	return &life{sup: s, conn: pair, proc: p, began: time.Now(), late: make(chan int, len(s.net.opts.Forwards))}, nil
}

// spawn starts a gateway, which is to be told all that it begins with.
func (s *supervisor) spawn() (*life, error) {
	ours, theirs, err := gateway.NewPair()
	if err != nil {
		return nil, err
	}
	p, err := s.net.opts.Start(theirs)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	l, err := s.newLife(ours, p, nil)
	if err != nil {
		return nil, err
	}
	l.left = gateway.AppendMessage(nil, gateway.KindConfig, s.net.opts.Config)
	for _, lease := range s.net.leases.all() {
		l.left = gateway.AppendMessage(l.left, gateway.KindLease, lease)
	}
	l.left = gateway.AppendMessage(l.left, gateway.KindStart, nil)
	for i := range s.net.opts.Forwards {
		if s.net.fwd.socket(i) != nil {
			l.late <- i
		}
	}
	return l, nil
}

// run serves the gateway until it ends, and tells why that was.
func (l *life) run() error {
	var writer sync.WaitGroup
	writer.Go(l.write)
	defer writer.Wait()
	err := l.read()
	if errors.Is(err, errLeft) {
		return err
	}
	l.end()
	if how, _ := l.proc.Wait(); how != nil && !how.Success() && errors.Is(err, io.EOF) {
		err = errors.New(how.String())
	}
	return err
}

// end closes the pair, and ends the gateway and the writer.
func (l *life) end() {
	l.dead.Store(true)
	_ = l.conn.Close()
	_ = l.proc.Kill()
	l.sup.queue.wake()
}

// read handles what comes from the gateway until the end, and asks it at each tick whether it works.
func (l *life) read() error {
	from := gateway.Parser{Frames: l.frames, Message: l.message, MaxMessage: gateway.MaxMessage}
	for {
		_ = l.conn.SetReadDeadline(time.Now().Add(l.sup.net.opts.tune.tick))
		if l.sup.isOver() && !l.dead.Load() { // Detach may have set its deadline before that
			return errLeft
		}
		var err error
		for err == nil {
			err = l.conn.Receive(&from)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = l.tick()
		}
		if err != nil {
			return err
		}
	}
}

// tick asks the gateway whether it works.
func (l *life) tick() error {
	s := l.sup
	if s.isOver() {
		return nil
	}
	for _, i := range s.net.fwd.late() {
		s.net.tellForward(i, s.net.opts.Forwards[i])
		l.late <- i // once for each
	}
	s.queue.wake()
	l.lines = 0
	if !l.ready {
		if time.Since(l.began) > helloTime {
			return errHung
		}
		return nil
	}
	if l.unanswered >= hangTicks {
		return errHung
	}
	l.unanswered++
	s.ask()
	return nil
}

// frames carries frames of the gateway to the bridge.
func (l *life) frames(b frame.Batch) error {
	it := b.Iter()
	for it.Next() {
		if [6]byte(it.Frame()[6:12]) != l.sup.mac {
			return errForeign
		}
	}
	l.sup.net.port.Send(b)
	return nil
}

// message takes what the gateway says, as far as it can be.
func (l *life) message(kind byte, body []byte) error {
	if kind == gateway.KindHello {
		return gateway.Take(body, l.greet)
	}
	if !l.ready {
		return errors.New("no hello")
	}
	switch kind {
	case gateway.KindLeased:
		return gateway.Take(body, l.sup.net.leases.leased)
	case gateway.KindHandled:
		if l.ahead.Add(-gateway.HandledFrames) < 0 { // what an image before this one gave
			l.ahead.Store(0)
		}
		l.sup.queue.wake()
		return nil
	case gateway.KindAnswer:
		return gateway.Take(body, l.answer)
	case gateway.KindLog:
		return gateway.Take(body, l.log)
	}
	return fmt.Errorf("message %d", kind)
}

// greet takes a hello.
func (l *life) greet(h gateway.Hello) error {
	if l.ready {
		return errors.New("hello again")
	}
	if h.Protocol != gateway.Protocol {
		return fmt.Errorf("protocol %d of version %s, this program speaks %d; upgrade the daemon", h.Protocol, text(h.Version), gateway.Protocol)
	}
	h.Version, h.Error = text(h.Version), text(h.Error)
	s := l.sup
	if h.Error != "" {
		s.net.opts.Log.Warn("the gateway of the embedded network keeps the daemon's rights", "error", h.Error)
	}
	l.ready = true
	s.ask()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Hello, s.state, s.err = h, running, nil
	return nil
}

// answer takes the counters that a gateway tells. They are its own word.
func (l *life) answer(a gateway.Answer) error {
	s := l.sup
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Ask <= s.Last.Ask || a.Ask > s.Asked {
		return fmt.Errorf("an answer to question %d, of %d", a.Ask, s.Asked)
	}
	s.Last, l.unanswered = a, 0
	return nil
}

// log logs a line of the gateway.
func (l *life) log(line gateway.LogLine) error {
	if l.lines++; l.lines > maxLines {
		return nil
	}
	args := make([]any, 0, len(line.Args))
	for _, a := range line.Args[:len(line.Args)&^1] {
		args = append(args, text(a))
	}
	l.sup.net.opts.Log.Log(context.Background(), slog.Level(line.Level), text(line.Message), args...)
	return nil
}

// text is a text of the gateway, made harmless.
func text(s string) string { return printable.Line(s, maxText) }
