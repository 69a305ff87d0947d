// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// A testPipe is a pipe that does what room and fail say, and checks that its methods are called as they may be.
type testPipe struct {
	mu    sync.Mutex
	got   []uint64 // numbers of the frames
	waits int

	room func(want int) int // how many frames to take of so many
	fail func(n uint64) error
	wait func(stop <-chan struct{})

	inside atomic.Int32
	abused atomic.Bool
}

func (p *testPipe) Send(b frame.Batch) (taken int, err error) {
	if p.inside.Add(1) != 1 {
		p.abused.Store(true)
	}
	defer p.inside.Add(-1)
	n := b.Len()
	if p.room != nil {
		n = p.room(n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	it := b.Iter()
	for it.Next() && taken < n {
		number := binary.BigEndian.Uint64(it.Frame()[frame.MinLen:])
		if p.fail != nil {
			if err := p.fail(number); err != nil {
				return taken, err
			}
		}
		p.got = append(p.got, number)
		taken++
	}
	return taken, nil
}

func (p *testPipe) Wait(stop <-chan struct{}) {
	if p.inside.Add(1) != 1 {
		p.abused.Store(true)
	}
	defer p.inside.Add(-1)
	p.mu.Lock()
	p.waits++
	p.mu.Unlock()
	if p.wait != nil {
		p.wait(stop)
	}
}

func (p *testPipe) numbers() []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]uint64(nil), p.got...)
}

// untilStop is a pipe's Wait of a client that never reads.
func untilStop(stop <-chan struct{}) { <-stop }

func none(int) int { return 0 }

// newOutbox is an Outbox that is closed at the end, when the pipe must have been used properly.
func newOutbox(t *testing.T, p *testPipe, limit int) (o *Outbox, died func() []error) {
	t.Helper()
	var mu sync.Mutex
	var errs []error
	o = NewOutbox(p, limit, func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	})
	o.patience = 0 // as where the system tells when there is room
	t.Cleanup(func() {
		o.Close()
		assert.False(t, p.abused.Load(), "Send and Wait at the same time")
	})
	return o, func() []error {
		mu.Lock()
		defer mu.Unlock()
		return append([]error(nil), errs...)
	}
}

// waits waits until the drainer has waited n times.
func waits(t *testing.T, p *testPipe, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.waits == n
	}, 20*time.Second, time.Millisecond)
}

// settled waits until the drainer of o has ended.
func settled(t *testing.T, o *Outbox) {
	t.Helper()
	require.Eventually(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return !o.busy
	}, 20*time.Second, time.Millisecond)
}

func count(from, n int) (list []uint64) {
	for i := range n {
		list = append(list, uint64(from+i))
	}
	return list
}

func TestOutboxKeepsOrder(t *testing.T) {
	const batches, frames = 400, 25
	turn := 0
	p := &testPipe{room: func(want int) int {
		turn++
		return min(want, turn*7%11)
	}}
	o, _ := newOutbox(t, p, 64<<20) // all of it, should the drainer have no processor
	for i := range batches {
		o.Deliver(numbered(i*frames, frames, 60+i%1400))
		if i%50 == 0 {
			time.Sleep(time.Millisecond) // the drainer ends now and then
		}
	}
	settled(t, o)
	assert.Equal(t, count(0, batches*frames), p.numbers())
	st := o.Stats()
	assert.Equal(t, uint64(batches*frames), st.ToClientFrames)
	assert.Zero(t, st.Queued)
	assert.NotZero(t, p.waits)
}

func TestOutboxDropsAtTheTail(t *testing.T) {
	p := &testPipe{room: none, wait: untilStop}
	o, died := newOutbox(t, p, smallQueue)
	for i := range 100 {
		o.Deliver(numbered(i*3, 3, 1514))
	}
	o.Deliver(numbered(300, 1, 14+8)) // there is room for a small one still
	st := o.Stats()
	fits := smallQueue / 1518
	assert.Equal(t, fits*1518+26, st.Queued)
	assert.Equal(t, uint64(fits+1), st.ToClientFrames)
	assert.Equal(t, uint64(300-fits), st.DropQueueFull)
	assert.Equal(t, uint64(fits*1514+22), st.ToClientBytes)
	waits(t, p, 1)
	o.Close()
	o.Close()
	assert.Zero(t, o.Stats().Queued)
	assert.Empty(t, p.numbers(), "nothing is sent any more")
	assert.Empty(t, died())
	o.Deliver(numbered(0, 2, 100))
	assert.Equal(t, uint64(2), o.Stats().DropClosed)
}

func TestOutboxStop(t *testing.T) {
	open := make(chan struct{})
	var once atomic.Bool
	p := &testPipe{
		room: func(want int) int {
			if once.Load() {
				return want
			}
			return 0
		},
		wait: func(<-chan struct{}) { <-open },
	}
	o, _ := newOutbox(t, p, 0)
	o.Deliver(numbered(0, 10, 100))
	o.Stop()
	assert.Zero(t, o.Stats().Stalled, "it gets nothing more")
	o.Dropped(Stats{DropStarting: 3})
	o.Deliver(numbered(10, 10, 100))
	once.Store(true)
	close(open)
	settled(t, o)
	assert.Equal(t, count(0, 10), p.numbers(), "what was queued goes out")
	assert.Equal(t, uint64(10), o.Stats().DropClosed)
	assert.Equal(t, uint64(3), o.Stats().DropStarting)
}

// TestOutboxOwes only the rest of a frame: its drainer waits for room, and Close gives it up.
func TestOutboxOwes(t *testing.T) {
	p := &testPipe{wait: untilStop}
	o, _ := newOutbox(t, p, 0)
	o.cut = &streamPipe{}
	o.cut.left.Store(5)
	o.Attach(Stats{})
	waits(t, p, 1)
	assert.Equal(t, 5, o.Stats().Queued)
	o.Close()
	assert.Zero(t, o.Stats().Queued)
}

func TestOutboxNoRoomByErrno(t *testing.T) {
	for _, errno := range []error{unix.EAGAIN, unix.ENOBUFS} {
		full := true
		p := &testPipe{fail: func(n uint64) error {
			if n == 3 && full {
				full = false
				return errno
			}
			return nil
		}}
		o, died := newOutbox(t, p, 0)
		o.Deliver(numbered(0, 6, 100))
		settled(t, o)
		assert.Equal(t, count(0, 6), p.numbers())
		assert.Empty(t, died())
	}
}

// TestOutboxLongFrames has a socket refuse some frames as too long: those alone are lost, sent at once or from the queue.
// TestFull: a client is behind from half of its queue on until a quarter is left; one that takes nothing is not waited for.
func TestFull(t *testing.T) {
	room, next := 0, make(chan int)
	p := &testPipe{room: func(int) int { return room }, wait: func(<-chan struct{}) { room = <-next }}
	o, _ := newOutbox(t, p, 100*(100+frame.PrefixLen))
	o.Deliver(numbered(0, 50, 100))
	assert.False(t, o.Full())
	o.Deliver(numbered(50, 20, 100))
	assert.True(t, o.Full())
	next <- 40
	next <- 0
	assert.True(t, o.Full(), "30 are left")
	next <- 10
	next <- 0
	require.Eventually(t, func() bool { return !o.Full() }, 20*time.Second, time.Millisecond, "20 are left")
	time.Sleep(deafTime)
	o.Deliver(numbered(70, 70, 100))
	assert.False(t, o.Full(), "it takes nothing")
	next <- 100
}

func TestOutboxLongFrames(t *testing.T) {
	for name, queued := range map[string]bool{"at once": false, "from the queue": true} {
		t.Run(name, func(t *testing.T) {
			p := &testPipe{fail: func(n uint64) error {
				if n == 0 || n == 3 || n == 4 || n == 9 {
					return unix.EMSGSIZE
				}
				return nil
			}, wait: untilStop} // there is room all the time
			o, died := newOutbox(t, p, 0)
			o.queueAll = queued
			o.Deliver(numbered(0, 10, 100))
			settled(t, o)
			assert.Equal(t, []uint64{1, 2, 5, 6, 7, 8}, p.numbers())
			assert.Equal(t, Stats{ToClientFrames: 6, ToClientBytes: 600, DropOversize: 4}, o.Stats())
			assert.Empty(t, died())
		})
	}
}

func TestOutboxDies(t *testing.T) {
	gone := errors.New("made by the test")
	for name, queued := range map[string]bool{"at once": false, "from the queue": true} {
		t.Run(name, func(t *testing.T) {
			p := &testPipe{fail: func(n uint64) error {
				if n >= 5 {
					return gone
				}
				return nil
			}}
			o, died := newOutbox(t, p, 0)
			o.queueAll = queued
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for i := range 20 {
						o.Deliver(numbered(i, 1, 100))
					}
				})
			}
			wg.Wait()
			require.Eventually(t, func() bool { return len(died()) > 0 }, 20*time.Second, time.Millisecond)
			o.Deliver(numbered(0, 1, 100))
			o.Close()
			assert.Equal(t, []error{gone}, died(), "once")
			st := o.Stats()
			assert.Zero(t, st.Queued)
			assert.NotZero(t, st.DropClosed)
			assert.Equal(t, uint64(81), st.ToClientFrames+st.DropClosed)
		})
	}
}

// TestOutboxPatience is macOS, where nothing tells when a full socket has room again.
func TestOutboxPatience(t *testing.T) {
	var deaf atomic.Bool
	deaf.Store(true)
	p := &testPipe{room: func(want int) int {
		if deaf.Load() {
			return 0
		}
		return want
	}}
	o, died := newOutbox(t, p, 0)
	o.patience = 10
	o.Deliver(numbered(0, 20, 100))
	settled(t, o)
	st := o.Stats()
	st.Stalled = 0 // TestOutboxStalls
	assert.Equal(t, 10, p.waits)
	assert.Equal(t, Stats{DropQueueFull: 20}, st, "what was accepted is taken back")
	deaf.Store(false)
	o.Deliver(numbered(20, 5, 100))
	assert.Equal(t, count(20, 5), p.numbers())
	assert.Empty(t, died())
}

// TestOutboxPatienceIsRenewed: a client that takes a frame each time it is about to end loses none, and one that takes nothing all.
func TestOutboxPatienceIsRenewed(t *testing.T) {
	const frames = 60 // more than a chunk
	for name, takes := range map[string]int{"slow": 1, "deaf": 0} {
		t.Run(name, func(t *testing.T) {
			turn := 0
			p := &testPipe{room: func(int) int {
				if turn++; turn > 2 && turn%3 == 2 {
					return takes
				}
				return 0
			}}
			o, _ := newOutbox(t, p, 0)
			o.patience = 3
			o.Deliver(numbered(0, frames, 1514))
			settled(t, o)
			assert.Len(t, p.numbers(), takes*frames)
			assert.EqualValues(t, (1-takes)*frames, o.Stats().DropQueueFull)
		})
	}
}

func TestQueueNeverCutsAFrame(t *testing.T) {
	var q queue
	defer q.drop()
	var want []uint64
	for i, length := range []int{69632, 65550, 60, 65550, 40000, 40000, 14 + 8, 69632, 1514, 1514, 32768, 32768, 32768} {
		b := numbered(i, 1, length)
		n, end := q.pushWhole(b.Bytes())
		require.Equal(t, []int{1, len(b.Bytes())}, []int{n, end})
		want = append(want, uint64(i))
	}
	batch := numbered(100, 200, 1514)
	n, _ := q.pushWhole(batch.Bytes())
	require.Equal(t, 200, n)
	want = append(want, count(100, 200)...)
	require.Equal(t, len(want), q.count())
	var got []uint64
	for c := q.front(); c != nil; c = q.front() {
		n, end := fit(c, len(c))
		require.Equal(t, len(c), end, "a cut frame")
		require.Equal(t, chunkLen, cap(q.chunks[0]), "it is not grown: that would be garbage")
		it := frame.NewBatch(c, n).Iter()
		for it.Next() {
			got = append(got, binary.BigEndian.Uint64(it.Frame()[frame.MinLen:]))
		}
		q.advance(len(c))
	}
	assert.Equal(t, want, got)
}

// TestOutboxPanics: a panic of the drainer ends this client, and not the process. One while it is delivered is the session's to catch.
func TestOutboxPanics(t *testing.T) {
	p := &testPipe{room: none}
	p.wait = func(<-chan struct{}) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.room = nil
	}
	p.fail = func(uint64) error { panic("in the pipe") }
	o, died := newOutbox(t, p, 0)
	o.Deliver(numbered(0, 1, 100))
	require.Eventually(t, func() bool { return len(died()) == 1 }, 20*time.Second, time.Millisecond)
	require.ErrorContains(t, died()[0], "in the pipe")
	o.Deliver(numbered(1, 2, 100))
	assert.EqualValues(t, 2, o.Stats().DropClosed)
}

// TestOutboxOfManySenders has several clients send to one that is slow: each one's order is kept, all frames are accounted
// for.
func TestOutboxOfManySenders(t *testing.T) {
	const senders, batches, frames = 4, 300, 8
	var calls atomic.Int64
	p := &testPipe{room: func(want int) int { return min(want, int(calls.Add(1)%5)) }, wait: func(<-chan struct{}) {}}
	o, _ := newOutbox(t, p, smallQueue)
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range batches {
				o.Deliver(numbered(s<<32|i*frames, frames, 100+i))
			}
		})
	}
	wg.Wait()
	settled(t, o)
	last := map[uint64]uint64{}
	for _, n := range p.numbers() {
		s := n >> 32
		before, seen := last[s]
		require.True(t, !seen || n > before, "order")
		last[s] = n
	}
	st := o.Stats()
	assert.Equal(t, uint64(len(p.numbers())), st.ToClientFrames)
	assert.Equal(t, uint64(senders*batches*frames), st.ToClientFrames+st.DropQueueFull)
}

// TestOutboxOfABlockingPipe is a socket on macOS whose other holder has cleared O_NONBLOCK: only the drainer may wait.
func TestOutboxOfABlockingPipe(t *testing.T) {
	release := make(chan struct{})
	p := &testPipe{room: func(want int) int {
		<-release
		return want
	}}
	o, _ := newOutbox(t, p, smallQueue)
	o.queueAll = true
	for i := range 1000 {
		o.Deliver(numbered(i, 1, 1514))
	}
	assert.NotZero(t, o.Stats().DropQueueFull)
	require.Eventually(t, func() bool { return p.inside.Load() == 1 }, 20*time.Second, time.Millisecond)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		o.Close()
	}()
	require.Eventually(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.closed
	}, 20*time.Second, time.Millisecond)
	select {
	case <-closed:
		assert.Fail(t, "Close does not wait for what is being sent")
	default:
	}
	close(release) // as shutting the socket down does
	<-closed
	assert.Less(t, len(p.numbers()), 60, "no second chunk")
}

// stalls waits until stats tell of a client that has taken nothing for least.
func stalls(t *testing.T, stats func() Stats, least time.Duration) {
	t.Helper()
	require.Eventually(t, func() bool { return stats().Stalled >= least }, 20*time.Second, time.Millisecond)
}

// TestStreamStalls: a client that does not read is told from one that reads slowly, and from one that nothing is for.
func TestStreamStalls(t *testing.T) {
	s, client := newStream(t)
	defer func() { _ = s.Close() }()
	s.Deliver(numbered(0, 4, 1514))
	assert.Zero(t, s.Stats().Stalled, "it is all in the socket")
	begun := time.Now()
	for s.Stats().Queued < DefaultQueueSize/2 {
		s.Deliver(numbered(0, 100, 1514))
	}
	stalls(t, s.Stats, 500*time.Millisecond) // longer than either end will have to wait for a processor
	stalled := s.Stats().Stalled
	assert.LessOrEqual(t, stalled, time.Since(begun))

	before := s.Stats().Stalled
	reads := func(until func(Stats) bool) {
		buf := make([]byte, 64<<10)
		require.Eventually(t, func() bool { // the last bytes may be read before they are no longer counted as queued
			_ = client.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			_, _ = client.Read(buf)
			return until(s.Stats())
		}, 20*time.Second, time.Millisecond)
	}
	reads(func(s Stats) bool { return s.Stalled < before && s.Queued > 0 }) // it reads a little: that is progress, though something waits
	reads(func(s Stats) bool { return s.Queued == 0 })
	assert.Zero(t, s.Stats().Stalled)
}

func TestOutboxStalls(t *testing.T) {
	for _, tt := range []struct {
		name     string
		patience int // on macOS the queue of a deaf client is dropped, and it is deaf all the same
	}{{"told of room", 0}, {"not told of room", 3}} {
		t.Run(tt.name, func(t *testing.T) {
			var open atomic.Bool
			p := &testPipe{
				room: func(want int) int {
					if open.Load() {
						return want
					}
					return 0
				},
				wait: func(<-chan struct{}) { time.Sleep(time.Millisecond) },
			}
			o, _ := newOutbox(t, p, 0)
			o.patience = tt.patience
			stats := o.Stats
			open.Store(true)
			o.Deliver(numbered(0, 10, 100))
			assert.Zero(t, stats().Stalled)
			open.Store(false)
			begun := time.Now()
			for range 4 { // the queue empties in between, where it is dropped
				o.Deliver(numbered(10, 10, 100))
				stalls(t, stats, stats().Stalled+20*time.Millisecond)
			}
			assert.GreaterOrEqual(t, stats().Stalled, 80*time.Millisecond)
			assert.LessOrEqual(t, stats().Stalled, time.Since(begun))
			open.Store(true)
			o.Deliver(numbered(20, 1, 100))
			settled(t, o)
			assert.Zero(t, stats().Stalled)
		})
	}
}
