// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// A recorder keeps a copy of what it is given.
type recorder struct {
	max int

	mu      sync.Mutex
	batches [][]string // payload of each frame, a slice per delivery
}

func (r *recorder) Deliver(b frame.Batch) {
	var got []string
	for it := b.Iter(); it.Next(); {
		got = append(got, string(it.Frame()[14:]))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = append(r.batches, got)
}

func (r *recorder) MaxFrame() int { return r.max }

// take returns what has come since the last call.
func (r *recorder) take() [][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.batches
	r.batches = nil
	return b
}

const (
	macA    = 0x020000000001
	macB    = 0x020000000002
	macC    = 0x020000000003
	macD    = 0x020000000004
	macGW   = 0x0200000000fe
	unknown = 0x0200000000ff
	all     = 0xffffffffffff
)

func hw(m uint64) net.HardwareAddr {
	return net.HardwareAddr{byte(m >> 40), byte(m >> 32), byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}
}

// one is a frame in wire form.
func one(dst, src uint64, payload string) []byte {
	f := append(append([]byte(nil), hw(dst)...), hw(src)...)
	f = append(f, 0x88, 0xb5) // EtherType for local experiments
	return frame.Append(nil, append(f, payload...))
}

func batch(frames ...[]byte) frame.Batch {
	var buf []byte
	for _, f := range frames {
		buf = append(buf, f...)
	}
	return frame.NewBatch(buf, len(frames))
}

type bench struct {
	*Bridge
	now atomic.Int64
}

func newBench(o Options) *bench {
	b := &bench{}
	o.Now = func() time.Duration { return time.Duration(b.now.Load()) }
	b.Bridge = New(o)
	return b
}

func (b *bench) sleep(d time.Duration) { b.now.Add(int64(d)) }

func (b *bench) attach(t *testing.T, name string) (*Port, *recorder) {
	t.Helper()
	r := &recorder{max: frame.MaxStreamLen}
	p, err := b.Attach(PortOptions{Name: name, Source: name}, r)
	require.NoError(t, err)
	return p, r
}

// three is a bridge with three ports that have announced their addresses.
func three(t *testing.T, o Options) (b *bench, ports [3]*Port, sinks [3]*recorder) {
	b = newBench(o)
	for i, m := range []uint64{macA, macB, macC} {
		ports[i], sinks[i] = b.attach(t, string(rune('A'+i)))
		ports[i].Send(batch(one(all, m, "hello")))
	}
	for _, s := range sinks {
		s.take()
	}
	return b, ports, sinks
}

// TestFind: where an address is that no port has sent from may be known otherwise; what a port has sent from counts first.
func TestFind(t *testing.T) {
	var up *Port
	_, p, s := three(t, Options{Find: func(mac uint64) *Port {
		if mac == macD {
			return up
		}
		return nil
	}})
	up = p[0]
	p[1].Send(batch(one(macD, macB, "found")))
	assert.Len(t, s[0].take(), 1)
	assert.Empty(t, s[2].take())
	p[1].Send(batch(one(unknown, macB, "flooded")))
	assert.Len(t, s[0].take(), 1)
	assert.Len(t, s[2].take(), 1)
	up.Send(batch(one(macD, macA, "came from there")))
	assert.Equal(t, uint64(1), up.Stats().Drops[network.DropHairpin])
	assert.Empty(t, s[2].take())
	p[2].Send(batch(one(all, macD, "here now")))
	p[1].Send(batch(one(macD, macB, "known")))
	assert.Len(t, s[2].take(), 1)
}

// bounded is a sink that is behind or not.
type bounded struct {
	discard
	full bool
}

func (s *bounded) Full() bool { return s.full }

// TestHold: a client is held for one that is behind, unless it has sent to others of late.
func TestHold(t *testing.T) {
	b, held := newBench(Options{}), 0
	p, err := b.Attach(PortOptions{Hold: func(frame.Bounded) { held++ }}, discard{})
	require.NoError(t, err)
	sinks := map[uint64]*bounded{macB: {}, macC: {}}
	for m, s := range sinks {
		q, err := b.Attach(PortOptions{MACs: []network.MAC{macAddr(m).bytes()}}, s)
		require.NoError(t, err)
		q.Send(batch(one(all, m, "hello")))
	}
	for _, s := range []struct {
		name  string
		after time.Duration
		full  bool // B
		to    []uint64
		held  int
	}{
		{"none is behind", aloneTime, false, []uint64{macB}, 0},
		{"one is", aloneTime, true, []uint64{macB}, 1},
		{"it has room for a moment", 0, false, []uint64{macB}, 0},
		{"and has none again", 0, true, []uint64{macB}, 1},
		{"a batch for it and for another", 0, true, []uint64{macC, macB}, 0},
		{"the other flow was just there", aloneTime - 1, true, []uint64{macB}, 0},
		{"and has ended", 1, true, []uint64{macB}, 1},
		{"a flood is another flow", 0, true, []uint64{all, macB}, 0},
	} {
		b.sleep(s.after)
		sinks[macB].full, held = s.full, 0
		for _, to := range s.to {
			p.Send(batch(one(to, macA, "x")))
		}
		assert.Equal(t, s.held, held, s.name)
	}
}

func TestStormBudget(t *testing.T) {
	b, p, s := three(t, Options{StormRate: 100, StormBurst: 10})
	b.sleep(time.Second)
	var frames [][]byte
	for range 15 {
		frames = append(frames, one(all, macA, "x"))
	}
	p[0].Send(batch(frames...))
	require.Len(t, s[1].take()[0], 10)
	require.Len(t, s[2].take()[0], 10)
	assert.Equal(t, uint64(5), p[0].Stats().Drops[network.DropStorm])
	p[0].Send(batch(one(macB, macA, "unicast is free")))
	assert.Len(t, s[1].take(), 1)
	p[1].Send(batch(one(all, macB, "others have their own")))
	assert.Len(t, s[0].take(), 1)
	b.sleep(50 * time.Millisecond)
	p[0].Send(batch(frames...))
	assert.Len(t, s[1].take()[0], 5, "5 tokens came back in 50 ms")
}

func TestSendAllocatesNothing(t *testing.T) {
	b := newBench(Options{})
	var p [3]*Port
	for i, m := range []uint64{macA, macB, macC} {
		var err error
		p[i], err = b.Attach(PortOptions{}, discard{})
		require.NoError(t, err)
		p[i].Send(batch(one(all, m, "hello")))
	}
	var frames [][]byte
	for i := range 64 {
		frames = append(frames, one([]uint64{macB, macB, macC, all}[i%4], macA, "x"))
	}
	run := batch(frames...)
	assert.Zero(t, testing.AllocsPerRun(100, func() { p[0].Send(run) }))
}

type discard struct{}

func (discard) Deliver(frame.Batch) {}
func (discard) MaxFrame() int       { return frame.MaxStreamLen }

// TestMoveIsToldOnce: a port's log tells of the first address that it took from another one, unless others are behind either.
func TestMoveIsToldOnce(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		var log vnettest.Log
		b, p, _ := three(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		q, err := b.Attach(PortOptions{Name: "up", Trusted: trusted}, discard{})
		require.NoError(t, err)
		for range 2 {
			q.Send(batch(one(all, macA, "mine"), one(all, macB, "mine too")))
			p[0].Send(batch(one(all, macA, "back")))
		}
		assert.Equal(t, map[bool]int{false: 2}[trusted], strings.Count(log.String(), "moved between clients"))
	}
}
