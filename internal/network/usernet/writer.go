// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
)

// pass gives the gateway the socket of a forward.
func (l *life) pass(i int) error {
	raw, err := l.sup.net.fwd.socket(i).SyscallConn()
	if err != nil {
		return err
	}
	return errors.Join(raw.Control(func(fd uintptr) {
		_, _, err = l.conn.WriteMsgUnix(gateway.AppendMessage(nil, gateway.KindForward, i), unix.UnixRights(int(fd)), nil)
	}), err)
}

// deliver writes frames of a session if nothing waits, as many as the window has room for and the pair takes now. What it returns is to be
// queued. A frame that the pair takes in part is left to the writer.
func (l *life) deliver(session uint64, b frame.Batch) (rest frame.Batch) {
	if !l.turn.TryLock() {
		return b
	}
	defer l.turn.Unlock()
	now := b.Head(max(0, int(window-l.ahead.Load())))
	if l.away || now.Len() == 0 || len(l.left) > 0 || !l.sup.queue.empty() {
		return b
	}
	l.head = gateway.AppendSession(l.head[:0], session)
	l.ahead.Add(int64(now.Len())) // the gateway may have handled them before the call returns
	n, err := l.conn.WriteWire(l.head, now.Bytes(), false)
	if n == 0 || err != nil {
		l.ahead.Add(-int64(now.Len()))
		return b
	}
	if n < len(l.head)+len(now.Bytes()) {
		l.left = append(append(l.left, l.head...), now.Bytes()...)[n:]
		l.sup.queue.wake()
	}
	return b.After(now.Len())
}

// write carries messages and what was queued to the gateway until the end.
func (l *life) write() {
	for {
		more, err := l.writeNext()
		if err != nil {
			return
		}
		if !more {
			<-l.sup.queue.token
		}
	}
}

// writeNext writes what is first in turn, and reports whether there was something.
func (l *life) writeNext() (more bool, err error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	if l.away || l.dead.Load() {
		return false, errLeft
	}
	if err := l.put(nil); err != nil { // what is left
		return false, err
	}
	if len(l.late) > 0 {
		return true, l.pass(<-l.late)
	}
	if l.ahead.Load() >= window {
		return false, nil // until the gateway says that it has handled some
	}
	frames := 0
	l.next = l.next[:0]
	for begin := -1; begin < len(l.next) && frames < writeFrames && len(l.next) < writeBytes; {
		begin = len(l.next)
		n := 0
		l.next, n = l.sup.queue.next(l.next)
		frames += n
	}
	if len(l.next) == 0 {
		return false, nil
	}
	l.ahead.Add(int64(frames))
	if err = l.put(l.next); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		l.sup.lost.Add(uint64(frames))
	}
	return true, err
}

// leave tells the gateway that this daemon goes, and ends the writer. What the gateway has not taken is left.
func (l *life) leave() {
	_ = l.conn.SetWriteDeadline(time.Now().Add(flushTime)) // also of a write that has the turn
	l.turn.Lock()
	defer l.turn.Unlock()
	l.away = true
	_ = l.put(gateway.AppendMessage(nil, gateway.KindAway, nil))
	for n := -1; n < len(l.left); {
		n = len(l.left)
		l.left, _ = l.sup.queue.next(l.left)
	}
	l.sup.queue.wake()
}

// put writes what is left and then b. What it cannot write is left.
func (l *life) put(b []byte) error {
	for len(l.left)+len(b) > 0 {
		n, err := l.conn.WriteWire(l.left, b, true)
		k := min(n, len(l.left))
		l.left, b = l.left[k:], b[n-k:]
		if err != nil {
			l.left = append(l.left, b...)
			return err
		}
	}
	l.left = l.left[:0]
	return nil
}

// Bounds of a queue, in bytes of wire form.
const (
	// queuePerSession is how much one client may have waiting: about 700 full frames, more than a guest's virtio ring.
	queuePerSession = 1 << 20
	// queueTotal is how much all of them may have waiting...
	queueTotal = 8 << 20
	// queueShare is ...beyond which each still gets this, so that no client can fill the queue for the others.
	queueShare = 64 << 10

	// turnFrames is how many frames a session has in a turn. One that begins a flow takes the gateway about 60 µs.
	turnFrames = 16
	// writeFrames and writeBytes are after how much no further turn goes into the same write.
	writeFrames, writeBytes = 64, 64 << 10
	// window is how many frames the gateway may have been given that it has not handled: what is new waits for that, however much the pair
	// has room for. With 256 TCP to the host was a tenth faster, and others waited half as long again for eight clients that flood.
	window = 160

	// fullPause is how long a client is not read for each frame for which there was no room: its flood takes no processor from others.
	fullPause = 20 * time.Microsecond
)

// spares are backlogs that were written.
var spares = sync.Pool{New: func() any { return new(backlog) }}

// A backlog is what waits from one session.
type backlog struct {
	session uint64
	buf     []byte // frames and messages, as they go over the pair
	from    int    // what is before has had its turn
	bytes   int    // of the frames
}

// A queue holds frames for the gateway while the pair is full, and messages. It is bounded, drops at its tail and is served round
// robin by session, so that one client's flood delays no other's frames. Session 0 is this daemon.
type queue struct {
	mu      sync.Mutex
	waiting map[uint64]*backlog
	turns   []*backlog // their order
	bytes   int

	token chan struct{} // one: something waits, or wake was called
}

// newQueue makes an empty queue.
func newQueue() *queue { return &queue{waiting: map[uint64]*backlog{}, token: make(chan struct{}, 1)} }

// put queues frames of a session. It returns for how many there was no room.
func (q *queue) put(session uint64, b frame.Batch) (full int) {
	q.mu.Lock()
	w := q.of(session)
	room := max(queueShare-w.bytes, min(queuePerSession-w.bytes, queueTotal-q.bytes))
	fits := b.Within(room)
	w.buf = append(w.buf, fits.Bytes()...)
	w.bytes += len(fits.Bytes())
	q.bytes += len(fits.Bytes())
	q.mu.Unlock()
	q.wake()
	return b.Len() - fits.Len()
}

// message queues a message behind the frames of a session.
func (q *queue) message(session uint64, kind byte, body any) {
	q.mu.Lock()
	w := q.of(session)
	w.buf = gateway.AppendMessage(w.buf, kind, body)
	q.mu.Unlock()
	q.wake()
}

// of is what waits from a session. The caller holds mu.
func (q *queue) of(session uint64) *backlog {
	w := q.waiting[session]
	if w == nil {
		w = spares.Get().(*backlog)
		*w = backlog{session: session, buf: w.buf[:0]}
		q.waiting[session] = w
		q.turns = append(q.turns, w)
	}
	return w
}

// wake puts the token there: there may be something in the queue.
func (q *queue) wake() {
	select {
	case q.token <- struct{}{}:
	default:
	}
}

// next appends a turn of the session whose turn it is to dst, and tells how many frames that is.
func (q *queue) next(dst []byte) ([]byte, int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turns) == 0 {
		return dst, 0
	}
	w := q.turns[0]
	q.turns = slices.Delete(q.turns, 0, 1)
	at, frames := w.from, 0
	for at < len(w.buf) && frames < turnFrames && at-w.from < writeBytes {
		n, isFrame := gateway.Next(w.buf[at:])
		if at += n; isFrame {
			frames++
			w.bytes -= n
			q.bytes -= n
		}
	}
	dst = append(gateway.AppendSession(dst, w.session), w.buf[w.from:at]...)
	if w.from = at; at == len(w.buf) {
		delete(q.waiting, w.session)
		w.free()
		return dst, frames
	}
	if at > len(w.buf)/2 {
		w.buf, w.from = append(w.buf[:0], w.buf[at:]...), 0
	}
	q.turns = append(q.turns, w)
	return dst, frames
}

// empty tells whether nothing waits.
func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.turns) == 0
}

// free gives a backlog back.
func (w *backlog) free() {
	if cap(w.buf) <= queuePerSession {
		spares.Put(w)
	}
}
