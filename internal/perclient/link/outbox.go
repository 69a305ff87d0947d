// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// oddWaits is how many waits in a row may end without anything being sent.
const oddWaits = 100

// deafTime is how long a client may have taken nothing to be waited for.
const deafTime = 10 * time.Millisecond

// A pipe takes frames for one client without waiting. Its methods are never called at the same time.
type pipe interface {
	// Send sends the frames of b in order and returns how many were taken. Fewer than all without an error: there is no
	// room now; EAGAIN and ENOBUFS mean the same. EMSGSIZE: the first frame that was not taken is too long for the socket
	// and has to be dropped. Any other error: the client cannot be reached any more.
	Send(b frame.Batch) (taken int, err error)
	// Wait returns when Send may take something, or when stop is closed. It may return too early. It is called by the
	// drainer alone and never while Send runs.
	Wait(stop <-chan struct{})
}

// An Outbox is the output side of a client, and its counters: frames go to its pipe at once if it takes them, else into a bounded
// queue that a goroutine empties, which exists only as long as something waits.
type Outbox struct {
	p     pipe
	limit int // of the queue, bytes
	dead  func(error)

	// cut is p if that may take a part of a frame, and so has to be called again with no frame left; else nil.
	cut *streamPipe

	// patience is how many times in a row the drainer waits in vain before it drops what it has in hand, at most a chunk; 0
	// = it does not drop. It is for systems that do not tell when a full socket has room again.
	patience int
	// queueAll leaves every Send to the drainer, because it may block.
	queueAll bool

	// mu guards what follows. It covers one Send, which does not wait, and is free while the drainer sends.
	mu     sync.Mutex
	out    queue       // of whole frames; the drainer sends its front
	busy   bool        // a drainer runs: everything goes through out, so that the order is kept
	ended  bool        // frames are dropped: Stop, Close or an error
	closed bool        // nothing is sent any more
	deaf   bool        // the patience came to an end, and nothing was taken since
	full   atomic.Bool // see Full; written with mu held
	moved  time.Time   // when the client, which is behind or deaf, last took something, or began to be
	stats  Stats       // but came

	telling sync.Mutex // guards came: its reader does not wait for a Send
	came    Stats      // what the client has sent

	stop    chan struct{}
	drainFn func() // drain, made once so that starting it allocates nothing
	drainer sync.WaitGroup
}

// NewOutbox makes an Outbox for p. limit is the size of its queue in bytes, 0 for DefaultQueueSize. dead is called at most
// once, from any goroutine, when Send failed; it must not block nor call back into the Outbox. Frames are dropped from then
// on.
func NewOutbox(p pipe, limit int, dead func(error)) *Outbox {
	if limit == 0 {
		limit = DefaultQueueSize
	}
	o := &Outbox{p: p, limit: limit, dead: dead, patience: maxWaits, stop: make(chan struct{})}
	o.drainFn = o.drain
	return o
}

// Came counts what has come from the client: frames, and what was none.
func (o *Outbox) Came(b frame.Batch, runts, long int) {
	o.telling.Lock()
	o.came.ToNetFrames += uint64(b.Len())
	o.came.ToNetBytes += uint64(b.DataLen())
	o.came.DropRunt += uint64(runts)
	o.came.DropLong += uint64(long)
	o.telling.Unlock()
}

// Dropped counts what is rare.
func (o *Outbox) Dropped(st Stats) {
	o.telling.Lock()
	defer o.telling.Unlock()
	o.came.Add(st)
}

// Stats are the counters of both directions, and what waits.
func (o *Outbox) Stats() (st Stats) {
	o.telling.Lock()
	st = o.came
	o.telling.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	st.Add(o.stats)
	st.Queued = o.out.size + o.owed()
	if (st.Queued > 0 || o.deaf) && !o.ended {
		st.Stalled = time.Since(o.moved)
	}
	return st
}

// Stop has frames dropped from now on. What is queued may still go out.
func (o *Outbox) Stop() {
	o.mu.Lock()
	o.ended = true
	o.mu.Unlock()
}

// Close ends the drainer and drops the queue. pipe.Send is not called after it returns. It is idempotent. The caller wakes the
// pipe's Wait unless its stop channel does.
func (o *Outbox) Close() {
	o.Detach()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cut != nil {
		o.cut.forget()
	}
}

// Detach is Close for a client that goes on elsewhere: what the pipe owes of a frame that was cut stays there.
func (o *Outbox) Detach() {
	o.mu.Lock()
	if !o.closed {
		o.closed, o.ended = true, true
		close(o.stop)
	}
	o.mu.Unlock()
	o.drainer.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	frames := o.out.count()
	o.lose(frames, o.out.size-frames*frame.PrefixLen)
	o.out.drop()
}

// lose counts frames that were accepted as dropped. The caller holds mu.
func (o *Outbox) lose(frames, size int) {
	o.stats.ToClientFrames -= uint64(frames)
	o.stats.ToClientBytes -= uint64(size)
	o.stats.DropQueueFull += uint64(frames)
}

// Attach has the Outbox go on where that with the counters st was. What the pipe owes is written.
func (o *Outbox) Attach(st Stats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stats.Add(st)
	o.wake()
}

// Deliver sends b if that is possible at once. What is not taken, or comes while earlier frames still wait, is queued up to
// the queue's size and dropped above it. See frame.Sink.
func (o *Outbox) Deliver(b frame.Batch) {
	if err := o.deliver(b); err != nil {
		o.dead(err)
	}
}

func (o *Outbox) deliver(b frame.Batch) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	faults.In("link.deliver", b.Bytes())
	if o.ended {
		o.stats.DropClosed += uint64(b.Len())
		o.full.Store(false)
		return nil
	}
	if !o.busy && !o.queueAll {
		var long tally
		rest, err := o.send(b, &long)
		taken := b.Len() - rest.Len() - long.frames
		o.deaf = o.deaf && taken == 0
		o.stats.ToClientFrames += uint64(taken)
		o.stats.ToClientBytes += uint64(b.DataLen() - rest.DataLen() - long.bytes)
		o.stats.DropOversize += uint64(long.frames)
		if err != nil {
			o.ended = true
			o.stats.DropClosed += uint64(rest.Len())
			return err
		}
		b = rest
	}
	o.enqueue(b)
	return nil
}

// Full implements frame.Bounded: half of the queue was full, and a quarter is still. Above that there is room for what those that send to
// the client are just reading.
func (o *Outbox) Full() bool { return o.full.Load() }

// A tally counts frames and their bytes.
type tally struct{ frames, bytes int }

// owed is how many bytes of a frame that the pipe has taken are not written yet.
func (o *Outbox) owed() int {
	if o.cut == nil {
		return 0
	}
	return o.cut.owed()
}

// send passes b to the pipe until it has no room, leaving out frames that are too long for its socket, which it adds to long. An
// error is the end of the client.
func (o *Outbox) send(b frame.Batch, long *tally) (rest frame.Batch, err error) {
	for b.Len() > 0 || o.owed() > 0 {
		taken, err := o.p.Send(b)
		b = b.After(taken)
		switch {
		case err == nil, errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOBUFS):
			return b, nil
		case b.Len() > 0 && errors.Is(err, unix.EMSGSIZE):
			long.frames++
			long.bytes += b.DataLen() - b.After(1).DataLen()
			b = b.After(1)
		default:
			return b, err
		}
	}
	return b, nil
}

// enqueue appends the frames of b as far as the queue has room for, in order, and starts the drainer. The caller holds mu.
func (o *Outbox) enqueue(b frame.Batch) {
	taken, end := o.out.pushWhole(b.Within(o.limit - o.out.size).Bytes())
	o.stats.ToClientFrames += uint64(taken)
	o.stats.ToClientBytes += uint64(end - taken*frame.PrefixLen)
	o.stats.DropQueueFull += uint64(b.Len() - taken)
	o.wake()
	if o.out.size > o.limit/2 {
		o.full.Store(time.Since(o.moved) < deafTime)
	}
}

// wake starts the drainer if something waits. The caller holds mu.
func (o *Outbox) wake() {
	if o.busy || o.out.size+o.owed() == 0 {
		return
	}
	o.busy = true
	if !o.deaf {
		o.moved = time.Now()
	}
	o.drainer.Add(1)
	go o.drainFn()
}

// drain sends the queue, waiting for the pipe outside the lock, until the queue is empty.
func (o *Outbox) drain() {
	defer o.drainer.Done()
	defer func() {
		if r := recover(); r != nil { // it is the end of this client alone
			o.Stop()
			o.dead(fmt.Errorf("panic while sending: %v\n%s", r, debug.Stack()))
		}
	}()
	for vain := 0; ; vain++ {
		c, ok := o.next()
		if !ok {
			return
		}
		owed, long := o.owed(), tally{}
		faults.In("link.drain", c)
		n, _ := fit(c, len(c))
		left, err := o.send(frame.NewBatch(c, n), &long)
		moves := left.Len() < n || o.owed() != owed
		impatient := !moves && o.patience > 0 && vain == o.patience
		o.settle(len(c), left, long, moves, impatient, err)
		switch {
		case err != nil:
			o.dead(err)
			return
		case impatient, left.Len()+o.owed() == 0:
			vain = -1
			continue
		case moves:
			vain = 0
		}
		o.p.Wait(o.stop)
		if vain > oddWaits { // there is room, they say, and is none: the system is short of memory
			time.Sleep(time.Millisecond)
		}
	}
}

// next is what is sent next: nothing where only the rest of a frame is owed. When nothing waits, or may be sent any more, the drainer
// has to end.
func (o *Outbox) next() ([]byte, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.out.front()
	waits := len(c)+o.owed() > 0
	o.busy = waits || o.closed
	return c, waits && !o.closed
}

// settle takes what has gone out, of size bytes of which left has not, from the queue, and what is given up. long was accepted and has
// not gone out. After an error busy stays set: nothing is sent any more.
func (o *Outbox) settle(size int, left frame.Batch, long tally, moves, impatient bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.out.advance(size - len(left.Bytes()))
	o.stats.ToClientFrames -= uint64(long.frames)
	o.stats.ToClientBytes -= uint64(long.bytes)
	o.stats.DropOversize += uint64(long.frames)
	switch {
	case err != nil:
		o.ended = true
		o.out.drop()
	case moves:
		o.moved, o.deaf = time.Now(), false
	case impatient:
		o.deaf = true
		o.lose(left.Len(), left.DataLen())
		o.out.advance(len(left.Bytes()))
	}
	if o.out.size < o.limit/4 {
		o.full.Store(false)
	}
}
