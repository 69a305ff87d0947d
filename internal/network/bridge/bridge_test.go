// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// A recorder keeps a copy of what it is given.
type recorder struct {
	max int

	mu      sync.Mutex
	batches [][]string // payload of each frame, a slice per delivery
	from    []any
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

type sourceRecorder struct{ recorder }

func (r *sourceRecorder) DeliverFrom(src any, b frame.Batch) {
	r.mu.Lock()
	r.from = append(r.from, src)
	r.mu.Unlock()
	r.Deliver(b)
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
	br := New(Options{Find: func(mac uint64) *Port {
		if mac == macD {
			return up
		}
		return nil
	}})
	sinks := [3]*recorder{{max: 100}, {max: 100}, {max: 100}}
	var ports [3]*Port
	for i := range ports {
		var err error
		ports[i], err = br.Attach(PortOptions{}, sinks[i])
		require.NoError(t, err)
	}
	up = ports[0]
	send := func(p *Port, f []byte) { p.Send(frame.NewBatch(f, 1)) }
	send(ports[1], one(macD, macA, "found"))
	assert.Len(t, sinks[0].take(), 1)
	assert.Empty(t, sinks[2].take())
	send(ports[1], one(unknown, macA, "flooded"))
	assert.Len(t, sinks[0].take(), 1)
	assert.Len(t, sinks[2].take(), 1)
	send(up, one(macD, macB, "came from there"))
	assert.Equal(t, uint64(1), up.Stats().Drops[network.DropHairpin])
	assert.Empty(t, sinks[2].take())
	send(ports[2], one(all, macD, "here now"))
	sinks[1].take()
	send(ports[1], one(macD, macA, "known"))
	assert.Len(t, sinks[2].take(), 1)
	require.NoError(t, br.Close())
}

func TestLastSeenWinsAndComesBack(t *testing.T) {
	_, p, s := three(t, Options{})
	p[2].Send(batch(one(all, macA, "thief")))
	p[1].Send(batch(one(macA, macB, "stolen")))
	s[0].take()
	assert.Equal(t, [][]string{{"thief"}}, s[1].take())
	assert.Equal(t, [][]string{{"stolen"}}, s[2].take())

	p[0].Send(batch(one(macB, macA, "owner")))
	p[1].Send(batch(one(macA, macB, "mine")))
	assert.Equal(t, [][]string{{"mine"}}, s[0].take())
	assert.Empty(t, s[2].take())
	assert.Equal(t, uint64(1), p[2].Stats().Moved)
	assert.Equal(t, uint64(1), p[0].Stats().Moved)
	assert.Equal(t, 1, p[2].Stats().MACs, "C keeps its own only")
}

// stuckLog is a log whose reader does not read.
type stuckLog struct {
	slog.Handler
	release chan struct{}
}

func (s stuckLog) Enabled(context.Context, slog.Level) bool { return true }

func (s stuckLog) Handle(context.Context, slog.Record) error {
	<-s.release
	return nil
}

func TestStuckLogHoldsUpNoOther(t *testing.T) {
	log := stuckLog{release: make(chan struct{})}
	_, p, s := three(t, Options{Log: slog.New(log)})
	var thief sync.WaitGroup
	thief.Go(func() { p[2].Send(batch(one(all, macA, "thief"))) }) // is logged
	time.Sleep(20 * time.Millisecond)
	others := make(chan struct{})
	go func() {
		defer close(others)
		p[1].Send(batch(one(all, unknown, "new address")))
		_ = p[0].Close()
	}()
	select {
	case <-others:
	case <-time.After(5 * time.Second):
		t.Error("others wait for the log")
	}
	close(log.release)
	thief.Wait()
	<-others
	assert.NotEmpty(t, s[1].take())
}

func TestStaticAddressNeverMovesOrAges(t *testing.T) {
	b, p, _ := three(t, Options{})
	gw := &sourceRecorder{recorder{max: frame.MaxEthernetLen}}
	g, err := b.Attach(PortOptions{Name: "gateway", StaticMACs: []net.HardwareAddr{hw(unknown)}, KnownOnly: true}, gw)
	require.NoError(t, err)
	p[0].Send(batch(one(all, unknown, "thief")))
	b.sleep(2 * maxAge * time.Second)
	gw.take()
	gw.from = nil
	p[1].Send(batch(one(unknown, macB, "1"), one(0x020000000077, macB, "unknown"), one(all, macB, "2")))
	assert.Equal(t, [][]string{{"1"}, {"2"}}, gw.take(), "unknown unicast does not reach it")
	assert.Equal(t, []any{"B", "B"}, gw.from)
	assert.Equal(t, uint64(1), p[0].Stats().Unlearned)
	assert.Equal(t, 1, g.Stats().MACs)
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

// TestIsolatedPorts: A and B are isolated, C, D and the gateway are not.
func TestIsolatedPorts(t *testing.T) {
	b := newBench(Options{})
	macs := []uint64{macA, macB, macC, macD}
	var p [4]*Port
	var s [5]*recorder
	for i := range p {
		s[i] = &recorder{max: frame.MaxStreamLen}
		var err error
		p[i], err = b.Attach(PortOptions{Name: string(rune('A' + i)), Isolated: i < 2}, s[i])
		require.NoError(t, err)
	}
	s[4] = &recorder{max: frame.MaxStreamLen}
	gw, err := b.Attach(PortOptions{Name: "gateway", StaticMACs: []net.HardwareAddr{hw(macGW)}, KnownOnly: true, Trusted: true}, s[4])
	require.NoError(t, err)
	for i, m := range macs { // each learns nothing of the others but is learned
		p[i].Send(batch(one(all, m, string(rune('a'+i)))))
	}
	heard := func() (all [5]string) {
		for i, r := range s {
			for _, delivery := range r.take() {
				for _, f := range delivery {
					all[i] += f
				}
			}
		}
		return all
	}
	assert.Equal(t, [5]string{"cd", "cd", "abd", "abc", "abcd"}, heard(), "broadcasts")
	for _, c := range []struct {
		name string
		from int
		dst  uint64
		want [5]string
	}{
		{"unicast to an isolated one", 0, macB, [5]string{}},
		{"and back", 1, macA, [5]string{}},
		{"unicast to an open one", 0, macC, [5]string{2: "x"}},
		{"from an open one", 2, macA, [5]string{0: "x"}},
		{"between open ones", 2, macD, [5]string{3: "x"}},
		{"to the gateway", 1, macGW, [5]string{4: "x"}},
		{"multicast", 0, 0x01005e0000fb, [5]string{2: "x", 3: "x", 4: "x"}},
		{"unknown", 0, unknown, [5]string{2: "x", 3: "x"}},
		{"unknown from an open one", 2, unknown, [5]string{0: "x", 1: "x", 3: "x"}},
		{"to itself", 0, macA, [5]string{}},
	} {
		p[c.from].Send(batch(one(c.dst, macs[c.from], "x")))
		assert.Equal(t, c.want, heard(), c.name)
	}
	gw.Send(batch(one(macA, macGW, "1"), one(macB, macGW, "2"), one(all, macGW, "3")))
	assert.Equal(t, [5]string{"13", "23", "3", "3", ""}, heard(), "the gateway reaches all")
	p[0].Send(batch(one(macB, macA, "1"), one(macC, macA, "2"), one(macB, macA, "3"), one(macGW, macA, "4")))
	assert.Equal(t, [5]string{2: "2", 4: "4"}, heard(), "in one batch")
	assert.Equal(t, uint64(3), p[0].Stats().Drops[network.DropIsolated])
	assert.Equal(t, map[network.DropReason]uint64{network.DropIsolated: 1}, p[1].Stats().Drops)
	p[0].Send(batch(one(all, macB, "stolen")))
	p[1].Send(batch(one(macA, macC, "with an address of an open one")))
	assert.Equal(t, [5]string{2: "stolen", 3: "stolen", 4: "stolen"}, heard(), "its source address does not matter")
}

func TestAddressesAge(t *testing.T) {
	b, p, s := three(t, Options{})
	b.sleep((maxAge - 1) * time.Second)
	p[0].Send(batch(one(macB, macA, "known")))
	assert.Empty(t, s[2].take())
	b.sleep(3 * time.Second)
	p[0].Send(batch(one(macB, macA, "aged")))
	assert.Len(t, s[2].take(), 1, "B was silent for too long")
	p[1].Send(batch(one(macA, macB, "back")))
	assert.Empty(t, s[2].take(), "A was not")
}

func TestRunsAreCutToTheSink(t *testing.T) {
	b, p, s := three(t, Options{})
	small := &recorder{max: 100}
	q, err := b.Attach(PortOptions{Name: "small"}, small)
	require.NoError(t, err)
	q.Send(batch(one(all, unknown, "hello")))
	s[0].take()
	big := string(make([]byte, 200))
	p[0].Send(batch(one(unknown, macA, big), one(unknown, macA, "1"), one(unknown, macA, "2"), one(unknown, macA, big),
		one(unknown, macA, "3")))
	assert.Equal(t, [][]string{{"1", "2"}, {"3"}}, small.take())
	assert.Equal(t, uint64(2), p[0].Stats().Drops[network.DropOversize])
}
