// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// newHub is NewHub with what a test does not look at.
func newHub(o Options) *Hub {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Watch == nil {
		o.Watch = func(bool) {}
	}
	if o.Describe == nil {
		o.Describe = func() func(uint64) Description { return func(uint64) Description { return Description{} } }
	}
	return NewHub(o)
}

// batch makes frames of the given lengths, whose bytes tell which they are.
func batch(first int, lengths ...int) frame.Batch {
	var b []byte
	for i, n := range lengths {
		b = frame.Append(b, numbered(first+i, n))
	}
	return frame.NewBatch(b, len(lengths))
}

// numbered is a frame that carries n behind its header.
func numbered(n, length int) []byte {
	f := make([]byte, length)
	copy(f, []byte{0x52, 0x54, 0, 0, 0, 2, 0x52, 0x54, 0, 0, 0, 1, 0x88, 0xb5})
	if length >= 18 {
		binary.BigEndian.PutUint32(f[14:], uint32(n))
	}
	return f
}

// A sheet is an output that keeps everything. While held it takes nothing.
type sheet struct {
	mu       sync.Mutex
	free     sync.Cond
	b        bytes.Buffer
	held     bool
	deadline time.Time
	broken   error
}

func newSheet() *sheet {
	s := &sheet{}
	s.free.L = &s.mu
	return s
}

func (s *sheet) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.held && s.broken == nil {
		s.free.Wait()
	}
	if s.broken != nil {
		return 0, s.broken
	}
	return s.b.Write(b)
}

func (s *sheet) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	return nil
}

func (s *sheet) hold(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = on
	s.free.Broadcast()
}

func (s *sheet) breaks(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
	s.free.Broadcast()
}

// seen is what a live reader has.
func (s *sheet) seen() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.b.Bytes())
}

// A packet is a frame in a file.
type packet struct {
	ci    gopacket.CaptureInfo
	data  []byte
	flags pcapgo.NgEpbFlags
}

// parse reads a whole file.
func parse(t *testing.T, b []byte) (packets []packet, intfs []pcapgo.NgInterface, info pcapgo.NgSectionInfo) {
	t.Helper()
	packets, intfs, info, err := parseSome(t, b)
	require.ErrorIs(t, err, io.EOF)
	return packets, intfs, info
}

// parseSome reads as much as there is of a file. The error is why it ended.
func parseSome(t *testing.T, b []byte) (packets []packet, intfs []pcapgo.NgInterface, info pcapgo.NgSectionInfo, end error) {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(b), pcapgo.NgReaderOptions{})
	require.NoError(t, err)
	for {
		data, ci, opts, err := r.ReadPacketDataWithOptions()
		if err != nil {
			end = err
			break
		}
		require.NotNil(t, opts.Flags)
		packets = append(packets, packet{ci, data, *opts.Flags})
	}
	for i := range r.NInterfaces() {
		n, err := r.Interface(i)
		require.NoError(t, err)
		intfs = append(intfs, n)
	}
	return packets, intfs, r.SectionInfo(), end
}

// A running capture.
type running struct {
	*Session
	out    *sheet
	leave  context.CancelCauseFunc // as the reader, or the daemon
	result chan result
	gone   chan struct{}
}

func start(t *testing.T, h *Hub, q Request) *running {
	t.Helper()
	s, err := h.Start(q)
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &running{s, newSheet(), cancel, make(chan result, 1), make(chan struct{})}
	go func() {
		defer close(r.gone)
		r.result <- s.Run(r.out, ctx.Done(), func() error { return context.Cause(ctx) })
	}()
	t.Cleanup(func() {
		cancel(ErrLeft)
		r.out.breaks(io.ErrClosedPipe)
		<-r.gone
	})
	return r
}

// end has the reader leave, and returns all that there is.
func (r *running) end(t *testing.T) (result, []packet, []pcapgo.NgInterface) {
	t.Helper()
	r.leave(ErrLeft)
	res := r.wait(t)
	p, n, _ := parse(t, r.out.seen())
	return res, p, n
}

func (r *running) wait(t *testing.T) result {
	t.Helper()
	select {
	case res := <-r.result:
		return res
	case <-time.After(patience):
		require.Fail(t, "the capture does not end")
		return result{}
	}
}

// sees waits until a live reader has n frames.
func (r *running) sees(t *testing.T, n int) []packet {
	t.Helper()
	var p []packet
	require.Eventually(t, func() bool {
		b := r.out.seen()
		if len(b) == 0 {
			return false
		}
		p, _, _, _ = parseSome(t, b)
		return len(p) >= n
	}, patience, time.Millisecond)
	return p
}

func TestFile(t *testing.T) {
	var on []bool
	h := newHub(Options{
		Application: "socket_vmnet2 1.2.3",
		Describe: func() func(id uint64) Description {
			return func(id uint64) Description {
				return Description{fmt.Sprintf("client %d al\x1bpha", id), strings.Repeat("ä", 300)}
			}
		},
		Watch: func(v bool) { on = append(on, v) },
	})
	r := start(t, h, Request{SnapLen: 100})
	before := time.Now()
	h.FromClient(3, batch(1, 60, 1514))
	h.ToClient(8, batch(1, 60, 1514))
	r.sees(t, 4)
	h.ToClient(3, batch(3, 14))
	r.sees(t, 5)
	res, packets, intfs := r.end(t)
	assert.Equal(t, result{Frames: 5, Reason: ErrLeft}, res)
	require.Len(t, packets, 5)
	require.Len(t, intfs, 3)
	assert.Equal(t, []bool{true, false}, on)

	_, _, info := parse(t, r.out.seen())
	assert.Equal(t, "socket_vmnet2 1.2.3", info.Application)
	assert.NotEmpty(t, info.Hardware)
	assert.NotEmpty(t, info.OS)
	assert.Equal(t, "client 3 al?pha", intfs[1].Name)
	assert.Equal(t, strings.Repeat("ä", 100), intfs[1].Description)
	assert.Equal(t, "client 8 al?pha", intfs[2].Name)
	for _, n := range intfs {
		assert.EqualValues(t, 1, n.LinkType)
		assert.EqualValues(t, 100, n.SnapLength)
		assert.EqualValues(t, 9, n.TimestampResolution)
	}
	assert.EqualValues(t, 3, intfs[1].Statistics.PacketsReceived)
	assert.EqualValues(t, 2, intfs[2].Statistics.PacketsReceived)
	assert.Zero(t, intfs[1].Statistics.PacketsDropped)

	for i, want := range []struct {
		intf, length, got int
		dir               pcapgo.NgEpbFlag
	}{
		{1, 60, 60, pcapgo.NgEpbFlagDirectionOutbound},
		{1, 1514, 100, pcapgo.NgEpbFlagDirectionOutbound},
		{2, 60, 60, pcapgo.NgEpbFlagDirectionInbound},
		{2, 1514, 100, pcapgo.NgEpbFlagDirectionInbound},
		{1, 14, 14, pcapgo.NgEpbFlagDirectionInbound},
	} {
		p := packets[i]
		assert.Equal(t, want.intf, p.ci.InterfaceIndex, i)
		assert.Equal(t, want.length, p.ci.Length, i)
		assert.Equal(t, want.got, p.ci.CaptureLength, i)
		assert.Equal(t, want.dir, p.flags.Direction, i)
		assert.Equal(t, numbered(1+i%2, want.length)[:want.got], p.data, i)
		assert.WithinRange(t, p.ci.Timestamp, before.Add(-time.Second), time.Now().Add(time.Second), i)
	}
}

func TestLongestFrameIsWhole(t *testing.T) {
	h := newHub(Options{})
	r := start(t, h, Request{})
	h.FromClient(1, batch(7, frame.MaxLen, frame.MaxLen, frame.MaxLen))
	_, packets, _ := func() (result, []packet, []pcapgo.NgInterface) { r.sees(t, 3); return r.end(t) }()
	require.Len(t, packets, 3)
	assert.Equal(t, numbered(9, frame.MaxLen), packets[2].data)
}

func TestNoClientThere(t *testing.T) {
	h := newHub(Options{})
	r := start(t, h, Request{})
	require.Eventually(t, func() bool { return len(r.out.seen()) > 0 }, patience, time.Millisecond, "the head comes at once")
	res, packets, intfs := r.end(t)
	assert.Equal(t, result{Reason: ErrLeft}, res)
	assert.Empty(t, packets)
	assert.Len(t, intfs, 1)
}

// accept88b5 is "ether proto 0x88b5 and len > 100".
var accept88b5 = []instruction{
	{0x28, 0, 0, 12}, {0x15, 0, 3, 0x88b5}, {0x80, 0, 0, 0}, {0x25, 0, 1, 100}, {0x06, 0, 0, 262144}, {0x06, 0, 0, 0},
}

func TestFilterSeesWholeFrames(t *testing.T) {
	h := newHub(Options{})
	r := start(t, h, Request{Filter: accept88b5, SnapLen: 14})
	h.FromClient(1, batch(0, 60, 100, 101, 1514))
	r.sees(t, 2)
	res, packets, intfs := r.end(t)
	assert.Equal(t, result{Frames: 2, Reason: ErrLeft}, res)
	require.Len(t, packets, 2)
	assert.Equal(t, 101, packets[0].ci.Length)
	assert.Equal(t, 14, packets[0].ci.CaptureLength)
	assert.EqualValues(t, 4, intfs[1].Statistics.PacketsReceived, "those before the filter")
}

func TestCountEndsIt(t *testing.T) {
	h := newHub(Options{})
	r := start(t, h, Request{Count: 3})
	h.FromClient(1, batch(0, 60, 60))
	h.FromClient(2, batch(2, 60, 60, 60))
	res := r.wait(t)
	assert.Equal(t, result{Frames: 3, Reason: ErrCount}, res)
	packets, _, _ := parse(t, r.out.seen())
	assert.Len(t, packets, 3)
	assert.Equal(t, stats{Started: 1}, h.Stats())
}

func TestOrderIsThatOfTime(t *testing.T) {
	h := newHub(Options{})
	r := start(t, h, Request{SnapLen: 60})
	const each, talkers = 500, 8
	var all sync.WaitGroup
	for id := range uint64(2 * talkers) {
		all.Go(func() {
			for i := range each {
				h.FromClient(id, batch(i, 60))
			}
		})
	}
	all.Wait()
	r.sees(t, 2*talkers*each)
	res, packets, _ := r.end(t)
	assert.Zero(t, res.Dropped)
	next := map[int]uint32{}
	for i, p := range packets {
		if i > 0 && p.ci.Timestamp.Before(packets[i-1].ci.Timestamp) {
			require.Fail(t, "time goes back", "frame %d", i)
		}
		require.Equal(t, next[p.ci.InterfaceIndex], binary.BigEndian.Uint32(p.data[14:]), "of one client in order")
		next[p.ci.InterfaceIndex]++
	}
	assert.Len(t, next, 2*talkers)
}

func TestReaderThatStopsCostsFramesAndIsTold(t *testing.T) {
	h := newHub(Options{})
	r := start(t, h, Request{})
	h.FromClient(1, batch(0, 60))
	r.sees(t, 1)
	r.out.hold(true)
	sent := 1
	for sent < 10_000 { // 15 MB, of which 4 MiB have room
		h.FromClient(uint64(1+sent%3), batch(sent, 1514))
		sent++
	}
	r.out.hold(false)
	require.Eventually(t, func() bool {
		r.ring.mu.Lock()
		defer r.ring.mu.Unlock()
		return len(r.ring.full)+len(r.ring.lost) == 0
	}, patience, time.Millisecond)
	res, packets, intfs := r.end(t)
	assert.NotZero(t, res.Dropped)
	assert.EqualValues(t, sent, res.Frames+res.Dropped)
	assert.Len(t, packets, int(res.Frames))
	var received, dropped uint64
	for _, n := range intfs[1:] {
		received += n.Statistics.PacketsReceived
		dropped += n.Statistics.PacketsDropped
	}
	assert.EqualValues(t, sent, received)
	assert.Equal(t, res.Dropped, dropped)
}

func TestReaderThatStopsForGoodEndsIt(t *testing.T) {
	var log bytes.Buffer
	h := newHub(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	r := start(t, h, Request{})
	r.sees(t, 0)
	r.out.hold(true)
	h.FromClient(1, batch(0, 60))
	r.out.mu.Lock()
	left := time.Until(r.out.deadline)
	r.out.mu.Unlock()
	assert.Greater(t, left, time.Second, "a write has a deadline")
	r.out.breaks(os.ErrDeadlineExceeded)
	assert.Equal(t, errStalled, r.wait(t).Reason)
	require.Eventually(t, func() bool { return h.Stats() == stats{Started: 1, Stalled: 1} }, patience, time.Millisecond)
	assert.Equal(t, 1, strings.Count(log.String(), "level=WARN"))
}

func TestSeveralCaptures(t *testing.T) {
	var on []bool
	h := newHub(Options{Watch: func(v bool) { on = append(on, v) }})
	all := []*running{
		start(t, h, Request{}), start(t, h, Request{Clients: []uint64{1}}),
		start(t, h, Request{Filter: accept88b5}), start(t, h, Request{SnapLen: 20, Count: 2}),
	}
	_, err := h.Start(Request{})
	assert.ErrorIs(t, err, errTooMany)
	h.FromClient(1, batch(0, 60, 200))
	h.ToClient(2, batch(0, 60, 200))
	for i, want := range []int{4, 2, 2} {
		all[i].sees(t, want)
		res, _, _ := all[i].end(t)
		assert.EqualValues(t, want, res.Frames, i)
	}
	assert.EqualValues(t, 2, all[3].wait(t).Frames)
	assert.Equal(t, []bool{true, false}, on)
	start(t, h, Request{}) // there is room again
}

func TestDaemonEndsIt(t *testing.T) {
	h := newHub(Options{})
	r := start(t, h, Request{})
	h.FromClient(1, batch(0, 60, 60))
	r.leave(ErrStopped)
	assert.Equal(t, result{Frames: 2, Reason: ErrStopped}, r.wait(t))
	packets, _, _ := parse(t, r.out.seen())
	assert.Len(t, packets, 2)
}

func TestCutOffAtTheEnd(t *testing.T) {
	h := newHub(Options{})
	r := start(t, h, Request{})
	r.out.hold(true)
	h.FromClient(1, batch(0, 60, 60))
	r.leave(ErrStopped)
	r.out.breaks(io.ErrClosedPipe)
	assert.Equal(t, ErrStopped, r.wait(t).Reason, "not that the output was closed")
}

func TestDiscard(t *testing.T) {
	h := newHub(Options{})
	s, err := h.Start(Request{})
	require.NoError(t, err)
	s.Discard()
	assert.Equal(t, stats{Started: 1}, h.Stats())
	h.FromClient(1, batch(0, 60))
}

func TestManyClientsAreBounded(t *testing.T) {
	h := newHub(Options{})
	r := start(t, h, Request{SnapLen: 14})
	b := batch(0, 60)
	for id := range uint64(maxInterfaces + 50) {
		h.FromClient(id+1, b)
	}
	r.sees(t, maxInterfaces+50)
	res, _, intfs := r.end(t)
	assert.EqualValues(t, maxInterfaces+50, res.Frames+res.Dropped)
	assert.Len(t, intfs, maxInterfaces+1)
	assert.EqualValues(t, 50, intfs[0].Statistics.PacketsReceived)
}

func TestOutputThatBreaks(t *testing.T) {
	h := newHub(Options{})
	r := start(t, h, Request{})
	r.sees(t, 0)
	r.out.breaks(io.ErrClosedPipe)
	h.FromClient(1, batch(0, 60))
	assert.ErrorIs(t, r.wait(t).Reason, io.ErrClosedPipe)
}

// TestNoAllocation: nothing on the frames' way allocates, whatever the reader does.
func TestNoAllocation(t *testing.T) {
	for name, stopped := range map[string]bool{"read": false, "not read": true} {
		t.Run(name, func(t *testing.T) {
			r := newRing(memory, frame.MaxLen)
			b := batch(0, 60, 1514)
			s := Session{ring: r, lost: map[uint64]uint64{}}
			assert.Zero(t, testing.AllocsPerRun(10_000, func() {
				r.put(1, fromClient, b)
				r.put(2, toClient, b)
				r.put(9, toClient, b)
				if !stopped {
					s.each(func(record) {})
				}
			}))
		})
	}
}
