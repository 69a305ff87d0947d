// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

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
	proc gateway.Process
	buf  []byte
	have int  // bytes in buf
	bulk bool // the last read brought much

	inherited bool
	ready     bool // has said hello
	lines     int  // logged since the last tick
	failure   error

	unanswered int // ticks; guarded by sup.mu

	turn sync.Mutex // of the goroutine that writes; taken before mu
	open bool       // clients' readers may write themselves
	left []byte     // the end of what was begun
	head []byte

	mu       sync.Mutex
	messages []byte // for the writer, before the queue
	forwards []int  // to pass
	leaving  bool   // the writer ends when the queue is empty
	done     chan struct{}
	ending   sync.Once
}

func (s *supervisor) newLife(conn *net.UnixConn, p gateway.Process) (*life, error) {
	pair, err := gateway.PairOf(conn)
	if err != nil {
		return nil, err
	}
	return &life{sup: s, conn: pair, proc: p, buf: make([]byte, bufferSize), done: make(chan struct{})}, nil
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
	err := l.greet()
	var writer sync.WaitGroup
	if err == nil {
		writer.Go(l.write)
		err = l.read(l.sup.net.opts.tune.tick)
	}
	if l.abandoned(err) {
		writer.Wait()
		return errLeft
	}
	l.end()
	writer.Wait()
	if how := l.proc.Wait(); how != nil && !errors.Is(err, errHung) && l.failure == nil {
		err = how
	}
	return err
}

// abandoned tells whether err is the end by Detach.
func (l *life) abandoned(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaving && errors.Is(err, os.ErrDeadlineExceeded)
}

// end closes the pair, which ends the gateway, and sees to it that it ends.
func (l *life) end() {
	l.ending.Do(func() {
		close(l.done)
		_ = l.conn.Close()
		_ = l.proc.Kill()
	})
}

// greet waits for hello and tells the gateway what it is to do.
func (l *life) greet() error {
	if l.inherited {
		l.send(gateway.AppendMessage(nil, gateway.KindBack, nil))
		return nil
	}
	_ = l.conn.SetDeadline(time.Now().Add(helloTime))
	for !l.ready {
		if err := l.receive(); err != nil {
			return err
		}
	}
	if err := l.introduce(); err != nil {
		return err
	}
	_ = l.conn.SetDeadline(time.Time{})
	l.say(running)
	return nil
}

// introduce sends all that a gateway begins with.
func (l *life) introduce() error {
	n := l.sup.net
	b := gateway.AppendMessage(nil, gateway.KindConfig, n.opts.Config)
	for _, lease := range n.leases.all() {
		b = gateway.AppendMessage(b, gateway.KindLease, lease)
	}
	if _, err := l.conn.Write(b); err != nil {
		return err
	}
	for i := range n.opts.Forwards {
		if err := l.pass(i); err != nil {
			return err
		}
	}
	_, err := l.conn.Write(gateway.AppendMessage(nil, gateway.KindStart, nil))
	return err
}

// pass gives the gateway the socket of a forward, if it is there.
func (l *life) pass(i int) error {
	s := l.sup.net.fwd.socket(i)
	if s == nil {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	return errors.Join(raw.Control(func(fd uintptr) {
		_, _, err = l.conn.WriteMsgUnix(gateway.AppendMessage(nil, gateway.KindForward, i), unix.UnixRights(int(fd)), nil)
	}), err)
}

// send gives the writer a message.
func (l *life) send(message []byte) {
	l.mu.Lock()
	l.messages = append(l.messages, message...)
	l.mu.Unlock()
	l.sup.queue.wake()
}

// deliver writes frames of a session if the pair takes them now and nothing waits. It reports false if they are to be queued. What a
// pair takes in part is left to the writer.
func (l *life) deliver(session uint64, b frame.Batch) bool {
	if !l.turn.TryLock() {
		return false
	}
	defer l.turn.Unlock()
	if !l.open || len(l.left) > 0 || !l.sup.queue.empty() {
		return false
	}
	l.head = gateway.AppendSession(l.head[:0], session)
	n, err := l.conn.WriteWire(l.head, b.Bytes(), false)
	if n == 0 || err != nil {
		return false
	}
	if n < len(l.head) {
		l.left = append(l.left[:0], l.head[n:]...)
		n = len(l.head)
	}
	if rest := b.Bytes()[n-len(l.head):]; len(l.left)+len(rest) > 0 {
		l.left = append(l.left, rest...)
		l.sup.queue.wake()
	}
	return true
}

// write carries messages and what was queued to the gateway until the end.
func (l *life) write() {
	defer l.written()
	for {
		l.turn.Lock()
		l.open = true
		more, err := l.writeNext()
		l.turn.Unlock()
		if err != nil {
			return
		}
		if more {
			continue
		}
		select {
		case <-l.sup.queue.woken():
		case <-l.done:
			return
		}
	}
}

// writeNext writes what is first in turn, and reports whether there was something. The caller has the turn.
func (l *life) writeNext() (more bool, err error) {
	l.mu.Lock()
	messages, forwards, leaving := l.messages, l.forwards, l.leaving
	l.messages, l.forwards = nil, nil
	l.mu.Unlock()
	if err := l.put(nil); err != nil { // what is left
		return false, err
	}
	for _, i := range forwards {
		if err := l.pass(i); err != nil {
			return false, err
		}
	}
	if len(messages) > 0 {
		return true, l.put(messages)
	}
	if c := l.sup.queue.next(); c != nil {
		defer l.sup.queue.free(c)
		if err = l.put(c.buf); err != nil && !leaving {
			l.sup.lost.Add(uint64(c.n))
		}
		return true, err
	}
	if leaving {
		l.open = false
		return false, errors.Join(l.put(gateway.AppendMessage(nil, gateway.KindAway, nil)), errLeft)
	}
	return false, nil
}

// put writes what is left and then b. What it cannot write is left.
func (l *life) put(b []byte) error {
	if len(l.left) > 0 {
		l.left = append(l.left, b...)
		b = nil
	}
	for _, part := range []*[]byte{&l.left, &b} {
		for len(*part) > 0 {
			n, err := l.conn.WriteWire(nil, *part, true)
			if err != nil {
				if part == &b {
					l.left = append(l.left[:0], b...)
				}
				return err
			}
			*part = (*part)[n:]
		}
	}
	l.left = l.left[:0]
	return nil
}

// written ends the reader of a life that is left: nothing more is to come from here.
func (l *life) written() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leaving {
		_ = l.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// read handles what comes from the gateway until the end, and asks it at each tick whether it works.
func (l *life) read(tick time.Duration) error {
	for next := time.Now().Add(tick); ; next = time.Now().Add(tick) {
		l.mu.Lock()
		if !l.leaving {
			_ = l.conn.SetReadDeadline(next)
		}
		l.mu.Unlock()
		err := l.receive()
		for err == nil {
			err = l.receive()
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || l.abandoned(err) {
			return err
		}
		if err := l.tick(); err != nil {
			return err
		}
	}
}

// tick asks the gateway whether it works.
func (l *life) tick() error {
	s := l.sup
	for _, i := range s.net.fwd.late() {
		s.net.tellForward(i, s.net.opts.Forwards[i])
		l.mu.Lock()
		l.forwards = append(l.forwards, i)
		l.mu.Unlock()
	}
	l.lines = 0
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.unanswered >= hangTicks {
		return errHung
	}
	l.unanswered++
	s.question(l)
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
		l.failure = fmt.Errorf("it sent what cannot be: %w", err)
	}
	return l.failure
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

var errForeign = errors.New("frames in the name of others")

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
	n := l.sup.net
	if kind == gateway.KindHello {
		return take(body, l.greeted)
	}
	if !l.ready {
		return errors.New("no hello")
	}
	switch kind {
	case gateway.KindLeased:
		return take(body, n.leases.leased)
	case gateway.KindUnleased:
		return take(body, n.leases.unleased)
	case gateway.KindAnswer:
		return take(body, func(a gateway.Answer) error { return l.sup.answer(l, a) })
	case gateway.KindFailing:
		return take(body, func(f gateway.Failing) error { return n.fwd.fail(f, text) })
	case gateway.KindLog:
		return take(body, l.log)
	}
	return fmt.Errorf("message %d", kind)
}

// take decodes a message and passes it on.
func take[T any](body []byte, to func(T) error) error {
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	return to(v)
}

// greeted takes a hello.
func (l *life) greeted(h gateway.Hello) error {
	if l.ready {
		return errors.New("hello again")
	}
	if h.Protocol != gateway.Protocol {
		return fmt.Errorf("protocol %d of version %s, this program speaks %d; upgrade the daemon", h.Protocol, text(h.Version), gateway.Protocol)
	}
	h.Version, h.Error = text(h.Version), text(h.Error)
	if h.Error != "" {
		l.sup.net.opts.Log.Warn("the gateway of the embedded network keeps the daemon's rights", "error", h.Error)
	}
	l.ready = true
	l.sup.mu.Lock()
	l.sup.hello = h
	l.sup.mu.Unlock()
	return nil
}

func (l *life) say(state string) {
	l.sup.mu.Lock()
	l.sup.state, l.sup.err = state, nil
	l.sup.mu.Unlock()
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
