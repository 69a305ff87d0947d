// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// A model is a bridge as simple as it can be: maps, and a decision for each frame by itself.
type model struct {
	ports  []*modelPort // as attached; nil for one that is closed
	owners map[uint64]*modelPort
	seen   map[uint64]uint32
}

type modelPort struct {
	number   int
	opts     PortOptions
	max      int
	macs     map[uint64]bool
	swept    uint32
	port     *Port
	sink     *recorder
	want     []string // payloads that it must have been given, in order
	ignored  uint64
	moved    uint64
	oversize uint64
	hairpin  uint64
	isolated uint64
}

// modelCapacity is how many addresses are used at most, so that a run is short.
const modelCapacity = 700

func isGroupMAC(m uint64) bool { return m>>40&1 != 0 }

// old reports that an address has not been seen for too long.
func (y *model) old(m uint64, now uint32) bool {
	s := y.seen[m]
	return s != never && now > s && now-s > maxAge
}

func (y *model) learn(p *modelPort, m uint64, now uint32) {
	owner := y.owners[m]
	switch {
	case isGroupMAC(m) || m == 0:
		return
	case owner == p:
		if y.seen[m] != never {
			y.seen[m] = now
		}
		return
	case owner != nil && y.seen[m] == never:
		p.ignored++
		return
	}
	if len(p.macs) >= maxMACs && p.swept != now {
		p.swept = now
		for a := range p.macs {
			if y.old(a, now) {
				delete(p.macs, a)
				delete(y.owners, a)
			}
		}
	}
	if len(p.macs) >= maxMACs {
		p.ignored++
		return
	}
	if owner != nil {
		p.moved++
		delete(owner.macs, m)
	}
	y.owners[m], y.seen[m] = p, now
	p.macs[m] = true
}

// A modelFrame is a frame to be sent.
type modelFrame struct {
	dst, src uint64
	payload  string
}

func (y *model) send(p *modelPort, frames []modelFrame, now uint32) {
	var to []*modelPort
	known := false
	for i, f := range frames {
		// Neighbouring frames from the same address, or to the same one, are taken together, see Send.
		if i == 0 || f.src != frames[i-1].src {
			y.learn(p, f.src, now)
		}
		if i == 0 || f.dst != frames[i-1].dst {
			to, known = y.route(p, f.dst, now)
		}
		for _, q := range to {
			switch {
			case q == p:
				p.hairpin++
			case q.opts.Isolated && p.opts.Isolated:
				if known {
					p.isolated++
				}
			case len(f.payload)+frame.MinLen > q.max:
				p.oversize++
			default:
				q.want = append(q.want, f.payload)
			}
		}
	}
}

// owns is the port that owns an address now, or nil.
func (y *model) owns(m uint64, now uint32) *modelPort {
	if o := y.owners[m]; o != nil && !y.old(m, now) {
		return o
	}
	return nil
}

// route is where a frame goes, p itself for one to where it comes from, and whether the address is known.
func (y *model) route(p *modelPort, dst uint64, now uint32) (to []*modelPort, known bool) {
	if !isGroupMAC(dst) {
		if o := y.owns(dst, now); o != nil {
			return []*modelPort{o}, true
		}
	}
	for _, q := range y.ports {
		if q != nil && q != p && (isGroupMAC(dst) || !q.opts.KnownOnly) {
			to = append(to, q)
		}
	}
	return to, false
}

func (y *model) close(p *modelPort) {
	for m := range p.macs {
		delete(y.owners, m)
	}
	y.ports[p.number] = nil
}

// A script is bytes that operations are made of; zeros follow its end.
type script []byte

func (s *script) next() int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b)
}

// mac is one of the addresses that operations use: few, so that ports fight for them, and the odd ones.
func (s *script) mac() uint64 {
	switch n := s.next(); {
	case n < 200:
		return 0x020000000000 + uint64(n%24)
	case n < 210:
		return all
	case n < 220:
		return 0x01005e000000 + uint64(n)
	case n < 225:
		return 0x0180c2000000
	case n < 230:
		return 0
	default:
		return 0x020000000100 + uint64(n)
	}
}

// FuzzBridge has a bridge and the model do the same: every port is given the same frames in the same order, and counts the same.
func FuzzBridge(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 2, 3, 0, 1, 1, 1, 2, 2, 1, 1, 2, 1, 5, 200, 6, 0})
	f.Add([]byte{0, 7, 0, 15, 0, 3, 2, 0, 0, 0, 1, 2, 1, 1, 5, 5, 250, 2, 2, 1, 1, 1, 6, 1, 2, 0, 0, 5, 1})
	f.Add([]byte{0, 0, 0, 0, 7, 0, 130, 7, 0, 130, 7, 1, 200, 5, 255, 5, 255, 7, 0, 9, 2, 0, 3, 1, 2, 3})
	f.Add([]byte("\x00\x01\x00\x02\x00\x04\x02\x00\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x06\x00\x00\x00\x02\x01\x03"))
	r := rand.NewChaCha8([32]byte{})
	for range 50 {
		in := make([]byte, 500)
		_, _ = r.Read(in)
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 2048 {
			return // finds nothing more
		}
		newComparison(t).run(script(in))
	})
}

// A comparison is a bridge beside its model.
type comparison struct {
	t     *testing.T
	b     *bench
	model *model
	sent  int
	fresh uint64 // addresses used up
}

func newComparison(t *testing.T) *comparison {
	t.Helper()
	return &comparison{
		t: t, b: newBench(Options{StormRate: 1 << 30, StormBurst: 1 << 30, Log: slog.New(slog.DiscardHandler)}),
		model: &model{owners: map[uint64]*modelPort{}, seen: map[uint64]uint32{}},
	}
}

func (c *comparison) run(s script) {
	for len(s) > 0 {
		switch s.next() % 8 {
		case 0:
			c.attach(s.next())
		case 1, 2, 3:
			c.send(&s)
		case 4:
			c.b.sleep(time.Duration(s.next()) * time.Millisecond * 10)
		case 5:
			c.b.sleep(time.Duration(s.next()) * 2 * time.Second)
		case 6:
			if p := c.port(s.next()); p != nil {
				require.NoError(c.t, p.port.Close())
				c.model.close(p)
			}
		case 7:
			c.flood(&s)
		}
		c.compare()
	}
	require.NoError(c.t, c.b.Close())
}

// port is one of those that are attached, nil without any.
func (c *comparison) port(n int) *modelPort {
	var live []*modelPort
	for _, p := range c.model.ports {
		if p != nil {
			live = append(live, p)
		}
	}
	if len(live) == 0 {
		return nil
	}
	return live[n%len(live)]
}

func (c *comparison) attach(how int) {
	if len(c.model.ports) >= 12 {
		return
	}
	p := &modelPort{number: len(c.model.ports), max: []int{frame.MaxStreamLen, 100}[how>>3&1], macs: map[uint64]bool{}}
	p.opts = PortOptions{Name: fmt.Sprint(p.number), Isolated: how&1 != 0, KnownOnly: how&2 != 0}
	if how&4 != 0 {
		m := uint64(0x02000000fe00 + p.number)
		p.opts.StaticMACs = []net.HardwareAddr{hw(m)}
		if before := c.model.owners[m]; before != nil {
			delete(before.macs, m)
		}
		c.model.owners[m], c.model.seen[m] = p, never
		p.macs[m] = true
	}
	p.sink = &recorder{max: p.max}
	var err error
	p.port, err = c.b.Attach(p.opts, p.sink)
	require.NoError(c.t, err)
	c.model.ports = append(c.model.ports, p)
}

// send sends a batch of a few frames.
func (c *comparison) send(s *script) {
	p := c.port(s.next())
	if p == nil {
		return
	}
	var frames []modelFrame
	for range 1 + s.next()%6 {
		f := modelFrame{dst: s.mac(), src: s.mac(), payload: c.payload(s.next())}
		if n := s.next(); n > 240 { // the static address of a port
			f.dst = 0x02000000fe00 + uint64(n%4)
		} else if n > 230 {
			f.src = 0x02000000fe00 + uint64(n%4)
		}
		frames = append(frames, f)
	}
	c.deliver(p, frames)
}

// flood sends from many new addresses, in one batch.
func (c *comparison) flood(s *script) {
	p := c.port(s.next())
	n := s.next()
	if p == nil || c.fresh+uint64(n) > modelCapacity {
		return
	}
	var frames []modelFrame
	for range n {
		c.fresh++
		frames = append(frames, modelFrame{dst: 0x020000000000, src: 0x060000000000 + c.fresh, payload: c.payload(0)})
	}
	c.deliver(p, frames)
}

// payload tells frames apart; some are too long for some ports.
func (c *comparison) payload(n int) string {
	c.sent++
	return fmt.Sprintf("%d %*d", c.sent, n%120, 0)
}

func (c *comparison) deliver(p *modelPort, frames []modelFrame) {
	if len(frames) == 0 {
		return
	}
	var wire [][]byte
	for _, f := range frames {
		wire = append(wire, one(f.dst, f.src, f.payload))
	}
	c.model.send(p, frames, seconds(time.Duration(c.b.now.Load())))
	p.port.Send(batch(wire...))
}

func (c *comparison) compare() {
	for _, p := range c.model.ports {
		if p == nil {
			continue
		}
		require.Equal(c.t, p.want, slices.Concat(p.sink.take()...), "frames for port %d", p.number)
		p.want = nil
		st := p.port.Stats()
		require.Equal(c.t, []uint64{p.ignored, p.moved, p.oversize, p.hairpin, p.isolated, uint64(len(p.macs))},
			[]uint64{st.Unlearned, st.Moved, st.Drops["drop_oversize"], st.Drops["drop_hairpin"], st.Drops["drop_isolated"], uint64(st.MACs)},
			"port %d: unlearned, moved, oversize, hairpin, isolated, addresses", p.number)
	}
}
