// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"errors"
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
		case <-l.sup.queue.token:
		case <-l.done:
			return
		}
	}
}

// writeNext writes what is first in turn, and reports whether there was something. The caller has the turn.
func (l *life) writeNext() (more bool, err error) {
	leaving := l.isLeaving()
	if err := l.put(nil); err != nil { // what is left
		return false, err
	}
	select {
	case i := <-l.late:
		return true, l.pass(i)
	default:
	}
	if w := l.sup.queue.next(); w != nil {
		defer l.sup.queue.free(w)
		if err = l.put(w.buf); err != nil && !leaving {
			l.sup.lost.Add(uint64(w.frames))
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
	l.sup.mu.Lock()
	defer l.sup.mu.Unlock()
	if l.leaving {
		_ = l.conn.SetReadDeadline(time.Unix(1, 0))
	}
}
