// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
)

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
	select {
	case <-l.hello:
	case <-l.done:
		return
	}
	l.turn.Lock()
	err := l.introduce()
	l.open = err == nil
	l.turn.Unlock()
	for more := l.open; err == nil; {
		if !more {
			select {
			case <-l.sup.queue.token:
			case <-l.done:
				return
			}
		}
		l.turn.Lock()
		more, err = l.writeNext()
		l.turn.Unlock()
	}
}

// introduce sends all that a gateway begins with. One that has begun goes on.
func (l *life) introduce() error {
	s := l.sup
	if l.inherited {
		s.queue.message(0, gateway.KindBack, nil)
		return nil
	}
	b := gateway.AppendMessage(nil, gateway.KindConfig, s.net.opts.Config)
	for _, lease := range s.net.leases.all() {
		b = gateway.AppendMessage(b, gateway.KindLease, lease)
	}
	if _, err := l.conn.Write(gateway.AppendMessage(b, gateway.KindStart, nil)); err != nil {
		return err
	}
	for i := range s.net.opts.Forwards {
		if err := l.pass(i); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.err = running, nil
	return nil
}

// writeNext writes what is first in turn, and reports whether there was something. The caller has the turn.
func (l *life) writeNext() (more bool, err error) {
	if !l.open {
		return false, errLeft
	}
	if err := l.put(nil); err != nil { // what is left
		return false, err
	}
	if len(l.late) > 0 {
		return true, l.pass(<-l.late)
	}
	w := l.sup.queue.next()
	if w == nil {
		return false, nil
	}
	defer w.free()
	if err = l.put(w.buf); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		l.sup.lost.Add(uint64(w.frames))
	}
	return true, err
}

// leave tells the gateway that this daemon goes, and ends the writer. What the gateway has not taken is left.
func (l *life) leave() {
	_ = l.conn.SetWriteDeadline(time.Now().Add(flushTime)) // also of a write that has the turn
	l.turn.Lock()
	defer l.turn.Unlock()
	l.open = false
	err := l.put(nil)
	for err == nil && len(l.late) > 0 {
		err = l.pass(<-l.late)
	}
	_ = l.put(gateway.AppendMessage(nil, gateway.KindAway, nil))
	for w := l.sup.queue.next(); w != nil; w = l.sup.queue.next() {
		l.left = append(l.left, w.buf...)
	}
	l.stop()
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
