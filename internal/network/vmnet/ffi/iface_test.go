// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim && !darwin

package ffi_test

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// numbered makes a broadcast of n bytes that carries a number and a content that depends on it.
func numbered(number uint64, n int) []byte {
	f := make([]byte, n)
	copy(f, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5})
	binary.BigEndian.PutUint64(f[14:], number)
	copy(f[22:], rising[byte(number):])
	return f
}

// rising is every byte one more than the last, for contents that depend on a number.
var rising = func() (b [65536]byte) {
	for i := range b {
		b[i] = byte(i)
	}
	return b
}()

// fill puts a batch into w.
func fill(w *api.Writer, b frame.Batch) {
	w.Begin(b)
	it := b.Iter() // in the for clause each turn would copy it
	for it.Next() {
		w.Add(it.Frame())
	}
}

func send(t testing.TB, i api.Interface, frames ...[]byte) {
	t.Helper()
	var buf []byte
	for _, f := range frames {
		buf = frame.Append(buf, f)
	}
	w := api.NewWriter(len(frames))
	fill(w, frame.NewBatch(buf, len(frames)))
	require.Equal(t, api.Success, i.Write(w))
	w.End()
}

// receive reads until there is nothing more.
func receive(t testing.TB, i api.Interface) (frames [][]byte) {
	t.Helper()
	r := api.NewReader(8, i.Params().MaxPacket)
	for {
		require.Equal(t, api.Success, i.Read(r))
		b, odd := r.Batch()
		require.Zero(t, odd)
		if b.Len() == 0 {
			return frames
		}
		for it := b.Iter(); it.Next(); {
			frames = append(frames, append([]byte(nil), it.Frame()...))
		}
	}
}

func TestReadWriteStatus(t *testing.T) {
	s := open(t, vmnetsim.Full)
	i := s.start(t)
	r, w := api.NewReader(4, 1514), api.NewWriter(4)
	b := frame.NewBatch(frame.Append(nil, numbered(1, 60)), 1)
	for _, st := range statuses {
		s.c.Set(vmnetsim.ReadResult, int64(st), 1)
		assert.Equal(t, st, i.Read(r))
		assert.Equal(t, api.Success, i.Read(r), "the next one")
		s.c.Set(vmnetsim.WriteResult, int64(st), 1)
		fill(w, b)
		assert.Equal(t, st, i.Write(w))
		assert.Equal(t, api.Success, i.Write(w), "the same once more")
		w.End()
	}
}

// TestUpperHalf has the upper half of the result's register filled, as C may leave it.
func TestUpperHalf(t *testing.T) {
	s := open(t, vmnetsim.Full)
	i := s.start(t)
	s.c.Set(vmnetsim.ReadResult, int64(api.InvalidAccess)|0x5a5a<<32, 1)
	assert.Equal(t, api.InvalidAccess, i.Read(api.NewReader(1, 1514)))
}

// waitFor waits for an event on i. It reports false if none came.
func waitFor(t testing.TB, i api.Interface) bool {
	t.Helper()
	var late atomic.Bool
	defer time.AfterFunc(patience, func() {
		late.Store(true)
		i.Wake()
	}).Stop()
	i.Wait()
	return assert.False(t, late.Load(), "no event")
}

func TestNotify(t *testing.T) {
	s := open(t, vmnetsim.Full)
	x, y := s.start(t), s.start(t)
	assert.Zero(t, s.c.Calls()["vmnet_interface_set_event_callback"], "events are off")
	require.NoError(t, y.Notify(false), "and turning them off is not a call")
	assert.Zero(t, s.c.Calls()["vmnet_interface_set_event_callback"])

	require.NoError(t, y.Notify(true))
	for n := range uint64(3) {
		send(t, x, numbered(n, 60))
		require.True(t, waitFor(t, y))
		assert.Len(t, receive(t, y), 1)
	}
	require.NoError(t, y.Notify(false))
	send(t, x, numbered(3, 60))
	require.NoError(t, y.Notify(true), "on again, with a frame waiting")
	send(t, x, numbered(4, 60))
	require.True(t, waitFor(t, y))
	assert.Len(t, receive(t, y), 2)
}

// TestWake has several goroutines end a Wait, before it and while it is under way.
func TestWake(t *testing.T) {
	i := open(t, vmnetsim.Full).start(t)
	i.Wake()
	i.Wake()
	require.True(t, waitFor(t, i), "no event, but a wake-up before")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(i.Wake)
	}
	require.True(t, waitFor(t, i))
	wg.Wait()
}

// TestLateEvent turns events off while one is on its way, which the simulator delivers nevertheless: at worst that wakes
// a reader for nothing, also when it comes so late that the block has another user.
func TestLateEvent(t *testing.T) {
	s := open(t, vmnetsim.Full)
	x := s.start(t)
	y, err := s.Start(within(t), shared)
	require.NoError(t, err)
	require.NoError(t, y.Notify(true))
	s.c.Set(vmnetsim.EventDelay, never)
	send(t, x, numbered(1, 60))
	require.NoError(t, y.Notify(false))
	before := s.c.Gauges().Events
	s.c.Set(vmnetsim.DieOrdinal, 2) // a stop of what is dead does not wait for the queue
	isStatus(t, y.Stop(within(t)), "vmnet_stop_interface", api.InvalidAccess)
	z := s.start(t)
	require.Equal(t, before, s.c.Gauges().Events, "it is on its way")
	s.c.Set(vmnetsim.EventDelay, 0)
	assert.Eventually(t, func() bool { return s.c.Gauges().Events > before }, patience, time.Millisecond, "the event came")
	require.NoError(t, z.Notify(true))
	for n := range uint64(3) {
		send(t, x, numbered(n, 60))
		require.True(t, waitFor(t, z))
		assert.Len(t, receive(t, z), 1)
	}
}

func TestNotifyStatus(t *testing.T) {
	s := open(t, vmnetsim.Full)
	i := s.start(t)
	for _, st := range statuses {
		s.c.Set(vmnetsim.SetEventCallbackResult, int64(st), 1)
		isStatus(t, i.Notify(true), "vmnet_interface_set_event_callback", st)
		require.NoError(t, i.Notify(true))
		s.c.Set(vmnetsim.SetEventCallbackResult, int64(st), 1)
		isStatus(t, i.Notify(false), "vmnet_interface_set_event_callback", st)
	}
	require.NoError(t, i.Stop(within(t)))
	assert.ErrorIs(t, i.Notify(true), net.ErrClosed)
	assert.NoError(t, i.Notify(false))
}

func TestForward(t *testing.T) {
	s := open(t, vmnetsim.Full)
	i := s.start(t)
	f := network.Forward{Proto: "tcp", HostPort: 2222, Guest: netip.MustParseAddrPort("192.168.64.7:22")}
	require.NoError(t, i.Forward(within(t), f))
	udp := network.Forward{Proto: "udp", HostPort: 5353, Guest: netip.MustParseAddrPort("192.168.64.8:53")}
	require.NoError(t, i.Forward(within(t), udp))
	assert.Equal(t, []vmnetsim.Rule{
		{Proto: 6, ExternalPort: 2222, InternalPort: 22, Addr: f.Guest.Addr()},
		{Proto: 17, ExternalPort: 5353, InternalPort: 53, Addr: udp.Guest.Addr()},
	}, s.c.Rules())

	const call = "vmnet_interface_add_ip_port_forwarding_rule"
	isStatus(t, i.Forward(within(t), f), call, api.Failure) // it is there already
	for _, st := range statuses {
		f.HostPort++
		s.c.Set(vmnetsim.ForwardStatus, int64(st), 1)
		isStatus(t, i.Forward(within(t), f), call, st)
		s.c.Set(vmnetsim.ForwardResult, int64(st), 1)
		isStatus(t, i.Forward(within(t), f), call, st)
	}

	s.c.Set(vmnetsim.ForwardSilent, 1, 1)
	f = network.Forward{Proto: "tcp", HostPort: 4444, Guest: netip.MustParseAddrPort("192.168.64.7:22")}
	err := s.during(t, call, func(ctx context.Context) error { return i.Forward(ctx, f) })
	assert.ErrorIs(t, err, api.ErrNoAnswer)
	s.kept.Add(ffi.Gauges{Answers: 1})
}

func TestStop(t *testing.T) {
	s := open(t, vmnetsim.Full)
	i := s.start(t)
	require.NoError(t, i.Notify(true))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { assert.NoError(t, i.Stop(within(t))) })
	}
	wg.Wait()
	require.NoError(t, i.Stop(within(t)))
	assert.Equal(t, uint64(1), s.c.Calls()["vmnet_stop_interface"])
	assert.Equal(t, uint64(2), s.c.Calls()["vmnet_interface_set_event_callback"], "on and off")
	assert.Equal(t, api.InvalidAccess, i.Read(api.NewReader(1, 1514)))
}

func TestStopStatus(t *testing.T) {
	s := open(t, vmnetsim.Full)
	for _, st := range statuses {
		i, err := s.Start(within(t), shared)
		require.NoError(t, err)
		s.c.Set(vmnetsim.StopStatus, int64(st), 1)
		isStatus(t, i.Stop(within(t)), "vmnet_stop_interface", st)
		isStatus(t, i.Stop(within(t)), "vmnet_stop_interface", st) // it stays so
	}
}

// TestStopRefused has the interface die, so that the call itself fails and no handler comes.
func TestStopRefused(t *testing.T) {
	s := open(t, vmnetsim.Full)
	i, err := s.Start(within(t), shared)
	require.NoError(t, err)
	require.NoError(t, i.Notify(true))
	s.c.Set(vmnetsim.DieStatus, int64(api.SetupIncomplete))
	s.c.Set(vmnetsim.DieOrdinal, -1)
	assert.Equal(t, api.SetupIncomplete, i.Read(api.NewReader(1, 1514)))
	isStatus(t, i.Stop(within(t)), "vmnet_stop_interface", api.SetupIncomplete)
}

func TestStopSlowAndSilent(t *testing.T) {
	s := open(t, vmnetsim.Full)
	i, err := s.Start(within(t), shared)
	require.NoError(t, err)
	s.c.Set(vmnetsim.StopDelay, never)
	const stop = "vmnet_stop_interface"
	require.ErrorIs(t, s.during(t, stop, i.Stop), api.ErrNoAnswer)
	s.c.Set(vmnetsim.StopDelay, 0)
	require.NoError(t, i.Stop(within(t)), "the handler came")

	i, err = s.Start(within(t), shared)
	require.NoError(t, err)
	s.c.Set(vmnetsim.StopSilent, 1, 1)
	err = s.during(t, stop, i.Stop)
	require.ErrorIs(t, err, api.ErrNoAnswer)
	assert.ErrorContains(t, err, stop)
	s.kept.Add(ffi.Gauges{Interfaces: 1, Queues: 1, Answers: 1})
}

// TestNoAllocation is about the data path.
func TestNoAllocation(t *testing.T) {
	s := open(t, vmnetsim.Full)
	x, y := s.start(t), s.start(t)
	var buf []byte
	for n := range uint64(32) {
		buf = frame.Append(buf, numbered(n, 60+int(n)))
	}
	r, w := api.NewReader(32, 1514), api.NewWriter(32)
	frames := 0
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		fill(w, frame.NewBatch(buf, 32))
		if x.Write(w) != api.Success || y.Read(r) != api.Success {
			return
		}
		b, _ := r.Batch()
		frames += b.Len()
		w.End()
	}))
	assert.Equal(t, 101*32, frames)
}

func TestWaitAllocatesNothing(t *testing.T) {
	i := open(t, vmnetsim.Full).start(t)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		i.Wake()
		i.Wait()
	}))
}
