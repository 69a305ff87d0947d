// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// oddWaits is how many waits in a row may end without anything being sent.
const oddWaits = 100

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

// An Outbox is the output side of a client: frames go to its pipe at once if it takes them, else into a bounded
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
	out    queue // of whole frames
	flight int   // bytes the drainer has taken from out and not yet sent
	busy   bool  // a drainer runs: everything goes through out, so that the order is kept
	ended  bool  // frames are dropped: Stop, Close or an error
	closed bool  // nothing is sent any more
	counts bool  // Detach: what is not sent is counted as dropped
	deaf   bool  // the patience came to an end, and nothing was taken since
	stats  Stats

	moving  progress
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

// Add adds the counters to st: ToClientFrames, ToClientBytes, DropQueueFull, DropClosed, DropOversize and Queued.
func (o *Outbox) Add(st *Stats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	st.ToClientFrames += o.stats.ToClientFrames
	st.ToClientBytes += o.stats.ToClientBytes
	st.DropQueueFull += o.stats.DropQueueFull
	st.DropClosed += o.stats.DropClosed
	st.DropOversize += o.stats.DropOversize
	waits := o.out.size + o.flight + o.owed()
	st.Queued += waits
	st.Stalled = max(st.Stalled, o.moving.stalled((waits > 0 || o.deaf) && !o.ended))
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
	o.shut(false)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.out.drop()
	if o.cut != nil {
		o.cut.forget()
	}
}

// Detach is Close for a client that goes on elsewhere: what is queued is counted as dropped, and what the pipe owes of a frame
// that was cut stays there.
func (o *Outbox) Detach() {
	o.shut(true)
	o.mu.Lock()
	defer o.mu.Unlock()
	frames, size := o.out.count(), o.out.size
	o.out.drop()
	o.stats.ToClientFrames -= uint64(frames)
	o.stats.ToClientBytes -= uint64(size - frames*frame.PrefixLen)
	o.stats.DropQueueFull += uint64(frames)
}

// shut ends the drainer.
func (o *Outbox) shut(counts bool) {
	o.mu.Lock()
	if !o.closed {
		o.closed, o.ended, o.counts = true, true, counts
		close(o.stop)
	}
	o.mu.Unlock()
	o.drainer.Wait()
}

// Attach has the Outbox go on where that with the counters st was. What the pipe owes is written.
func (o *Outbox) Attach(st Stats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stats = Stats{
		ToClientFrames: st.ToClientFrames, ToClientBytes: st.ToClientBytes, DropQueueFull: st.DropQueueFull,
		DropClosed: st.DropClosed, DropOversize: st.DropOversize,
	}
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
		return nil
	}
	if !o.busy && !o.queueAll {
		rest, oversize, err := o.send(b)
		o.deaf = o.deaf && rest.Len()+oversize.frames == b.Len()
		o.stats.ToClientFrames += uint64(b.Len() - rest.Len() - oversize.frames)
		o.stats.ToClientBytes += uint64(b.DataLen() - rest.DataLen() - oversize.bytes)
		o.stats.DropOversize += uint64(oversize.frames)
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

// A tally counts frames and their bytes.
type tally struct{ frames, bytes int }

// owed is how many bytes of a frame that the pipe has taken are not written yet.
func (o *Outbox) owed() int {
	if o.cut == nil {
		return 0
	}
	return o.cut.owed()
}

// send passes b to the pipe until it has no room, leaving out frames that are too long for its socket. An error is the end
// of the client.
func (o *Outbox) send(b frame.Batch) (rest frame.Batch, oversize tally, err error) {
	for b.Len() > 0 || o.owed() > 0 {
		taken, err := o.p.Send(b)
		b = b.After(taken)
		switch {
		case err == nil, errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOBUFS):
			return b, oversize, nil
		case b.Len() > 0 && errors.Is(err, unix.EMSGSIZE):
			long := b.DataLen()
			b = b.After(1)
			oversize.frames++
			oversize.bytes += long - b.DataLen()
		default:
			return b, oversize, err
		}
	}
	return b, oversize, nil
}

// enqueue appends the frames of b as far as the queue has room for, in order, and starts the drainer. The caller holds mu.
func (o *Outbox) enqueue(b frame.Batch) {
	buf := b.Bytes()
	if room := o.limit - o.out.size - o.flight; len(buf) > room {
		_, end := fit(buf, room)
		buf = buf[:end]
	}
	taken, end := o.out.pushWhole(buf)
	o.stats.ToClientFrames += uint64(taken)
	o.stats.ToClientBytes += uint64(end - taken*frame.PrefixLen)
	o.stats.DropQueueFull += uint64(b.Len() - taken)
	o.wake()
}

// wake starts the drainer if something waits. The caller holds mu.
func (o *Outbox) wake() {
	if o.busy || o.out.size+o.owed() == 0 {
		return
	}
	o.busy = true
	if !o.deaf {
		o.moving.made()
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
	for {
		c, ok := o.next()
		if !ok {
			return
		}
		n, _ := fit(c, len(c))
		faults.In("link.drain", c)
		left, oversize, err := o.sendChunk(frame.NewBatch(c, n))
		o.settle(left, oversize, err)
		if c != nil {
			chunks.put(c)
		}
		if err != nil {
			o.dead(err)
			return
		}
	}
}

// next takes a chunk from the queue, or none where only the rest of a frame is owed. When nothing waits, or may be sent any more,
// the drainer has to end.
func (o *Outbox) next() ([]byte, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flight = 0
	if o.closed {
		return nil, false
	}
	c, ok := o.out.pop()
	if !ok && o.owed() == 0 {
		o.busy = false
		return nil, false
	}
	o.flight = len(c)
	return c, true
}

// sendChunk sends b, waiting where there is no room. left is what was not sent because of Close, an error, or because the
// patience is at an end.
func (o *Outbox) sendChunk(b frame.Batch) (left frame.Batch, oversize tally, err error) {
	for vain := 0; ; {
		before, owed := b.Len(), o.owed()
		var more tally
		b, more, err = o.send(b)
		oversize.frames += more.frames
		oversize.bytes += more.bytes
		progress := b.Len() < before || o.owed() != owed
		if progress {
			o.moving.made()
		}
		if err != nil || b.Len()+o.owed() == 0 {
			return b, oversize, err
		}
		switch {
		case progress:
			vain = 0
		case o.patience > 0 && vain == o.patience:
			return b, oversize, nil
		default:
			vain++
		}
		select {
		case <-o.stop:
			return b, oversize, nil
		default:
			o.p.Wait(o.stop)
		}
		if vain > oddWaits { // there is room, they say, and is none: the system is short of memory
			time.Sleep(time.Millisecond)
		}
	}
}

// settle counts the frames of a chunk that were accepted and have not gone out. After an error busy stays set: nothing is
// sent any more.
func (o *Outbox) settle(left frame.Batch, oversize tally, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stats.ToClientFrames -= uint64(oversize.frames)
	o.stats.ToClientBytes -= uint64(oversize.bytes)
	o.stats.DropOversize += uint64(oversize.frames)
	switch {
	case err != nil:
		o.ended = true
		o.flight = 0
		o.out.drop()
	case left.Len() == 0:
		o.deaf = false
	case !o.closed || o.counts:
		o.deaf = true
		o.stats.ToClientFrames -= uint64(left.Len())
		o.stats.ToClientBytes -= uint64(left.DataLen())
		o.stats.DropQueueFull += uint64(left.Len())
	}
}
