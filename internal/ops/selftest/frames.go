// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

const (
	// pings is how many echo requests one guest sends, pingData their size in bytes.
	pings    = 20
	pingData = 56
	// lostInRow is how many lost ones in a row end the step: each costs an answer's time.
	lostInRow = 3

	// probeFrames is how many frames each probe sends, probePause how long it waits between them.
	probeFrames = 10
	probePause  = time.Millisecond
	// settle is how long a frame is waited for that should not come.
	settle = 100 * time.Millisecond

	probePort = 40001 // UDP; no program listens there
	// tokenAt is where the token of a probe begins in a frame, behind the headers; the number of the frame follows.
	tokenAt = 14 + 20 + 8
)

var broadcastIP = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// tokens number the probes of the process.
var tokens atomic.Uint64

// frames are n UDP datagrams from g to ip behind mac with size bytes of IP packet, and all of them carry a new token.
func frames(g *guest, mac net.HardwareAddr, ip netip.Addr, n, size int) [][]byte {
	data := make([]byte, size-28)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	binary.BigEndian.PutUint64(data, tokens.Add(1)<<32|uint64(time.Now().UnixNano())&0xffffffff)
	out := make([][]byte, n)
	for i := range out {
		binary.BigEndian.PutUint32(data[8:], uint32(i))
		from, to := netip.AddrPortFrom(g.Addr().Addr(), probePort), netip.AddrPortFrom(ip, probePort)
		out[i] = fakeguest.EthernetFrame(mac, g.MAC(), fakeguest.TypeIPv4, fakeguest.UDPPacket(from, to, data))
	}
	return out
}

// A catch is what one guest got of the frames of a probe.
type catch struct {
	want [][]byte // by number
	all  chan struct{}

	mu      sync.Mutex // guards what follows
	sent    []time.Time
	delays  []time.Duration // of each that came, 0 while it has not
	came    int
	twice   int
	damaged int
}

// look is a guest's tap.
func (c *catch) look(f []byte) bool {
	if len(f) < tokenAt+12 || !bytes.Equal(f[tokenAt:tokenAt+8], c.want[0][tokenAt:tokenAt+8]) {
		return false
	}
	i := int(binary.BigEndian.Uint32(f[tokenAt+8:]))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case i >= len(c.want) || !bytes.Equal(f, c.want[i]):
		c.damaged++
	case c.delays[i] != 0:
		c.twice++
	default:
		c.delays[i] = max(time.Since(c.sent[i]), 1)
		if c.came++; c.came == len(c.want) {
			close(c.all)
		}
	}
	return false
}

// wrong tells what was wrong with what came, empty if nothing.
func (c *catch) wrong() string {
	switch {
	case c.damaged > 0:
		return fmt.Sprintf("%d of %d frames arrived damaged", c.damaged, len(c.want))
	case c.came < len(c.want):
		return fmt.Sprintf("%d of %d frames arrived", c.came, len(c.want))
	case c.twice > 0:
		return fmt.Sprintf("%d frames too many arrived", c.twice)
	}
	return ""
}

// probe sends frames from one guest and tells what each guest got of them. It waits until wanted have all of them, but no
// longer than an answer may take, and then for what should not come.
func (r *run) probe(ctx context.Context, from *guest, fs [][]byte, wanted []*guest) (map[*guest]*catch, error) {
	got := map[*guest]*catch{}
	for _, g := range r.guests {
		got[g] = &catch{want: fs, all: make(chan struct{}), sent: make([]time.Time, len(fs)), delays: make([]time.Duration, len(fs))}
		g.SetTap(got[g].look)
	}
	answer, cancel := context.WithTimeout(ctx, r.opts.Answer)
	defer cancel()
	var err error
	for i := 0; i < len(fs) && err == nil; i++ {
		for _, c := range got {
			c.mu.Lock()
			c.sent[i] = time.Now()
			c.mu.Unlock()
		}
		err = from.Send(fs[i])
		time.Sleep(probePause)
	}
	for _, g := range wanted {
		select {
		case <-got[g].all:
		case <-answer.Done():
		}
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
	}
	for g, c := range got { // from here on nothing changes any more
		g.SetTap(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	if err == nil {
		err = ctx.Err()
	}
	return got, err
}

// flight sends frames of size bytes of IP packet and judges what became of them: in an isolated network none may arrive,
// else each once at the wanted guests and nowhere else. It returns their catches, nil if there are none.
func (r *run) flight(ctx context.Context, from *guest, mac net.HardwareAddr, ip netip.Addr, size int, wanted ...*guest) (Step, []*catch) {
	expected := wanted
	if r.opts.Isolated {
		expected = nil
	}
	got, err := r.probe(ctx, from, frames(from, mac, ip, probeFrames, size), expected)
	if err != nil {
		return fail("guest %s: %v", from.name, err), nil
	}
	var catches []*catch
	for _, g := range wanted {
		catches = append(catches, got[g])
	}
	for _, g := range expected {
		if wrong := got[g].wrong(); wrong != "" {
			return fail("from guest %s to guest %s: %s", from.name, g.name, wrong), catches
		}
	}
	for _, g := range r.guests {
		if c := got[g]; slices.Contains(expected, g) || c.came+c.twice+c.damaged == 0 {
			continue
		}
		what := "that were not for it"
		switch {
		case r.opts.Isolated:
			what = "though guests are isolated"
		case g == from:
			what = "that came back from guest " + from.name
		}
		return fail("guest %s got frames %s", g.name, what), catches
	}
	return pass(nil), catches
}

// arp asks for the gateway from every guest.
func (r *run) arp(context.Context) Step {
	var macs []string
	var took []time.Duration
	for _, g := range r.guests {
		start := time.Now()
		mac, err := g.Resolve(r.gateway())
		if err != nil {
			return fail("guest %s: %v", g.name, err)
		}
		took = append(took, time.Since(start))
		macs = append(macs, mac.String())
	}
	values := append(Facts{{"gateway_mac", macs[0]}}, spread(took)[:2]...)
	if macs = slices.Compact(macs); len(macs) > 1 {
		return fail("the gateway has more than one MAC address: %s", strings.Join(macs, ", ")).with(values)
	}
	return pass(values)
}

// ping sends echo requests to the gateway, the last ones from the other guests.
func (r *run) ping(ctx context.Context) Step {
	var took []time.Duration
	var last error
	sent, row := 0, 0
	for i := 0; i < pings+len(r.guests)-1 && row < lostInRow && ctx.Err() == nil; i++ {
		g := r.guests[max(i-pings+1, 0)]
		sent++
		if d, err := g.Ping(r.gateway(), pingData); err != nil {
			last = fmt.Errorf("guest %s: %w", g.name, err)
			row++
		} else {
			row = 0
			took = append(took, d)
		}
	}
	values := append(Facts{{"sent", sent}, {"answered", len(took)}}, spread(took)...)
	if last != nil {
		return fail("%d of %d answered: %v", len(took), sent, last).with(values)
	}
	return pass(values)
}

// unicast sends frames between two guests, both ways. They arrive at their destination and nowhere else.
func (r *run) unicast(ctx context.Context) Step {
	a, b := r.guests[0], r.guests[1]
	var values Facts
	for _, way := range [][2]*guest{{a, b}, {b, a}} {
		from, to := way[0], way[1]
		if !r.opts.Isolated {
			if mac, err := from.Resolve(to.Addr().Addr()); err != nil {
				return fail("guest %s: %v", from.name, err).with(values)
			} else if !bytes.Equal(mac, to.MAC()) {
				return fail("guest %s: %s is at %s, not at guest %s's %s", from.name, to.Addr().Addr(), mac, to.name, to.MAC()).with(values)
			}
		}
		res, c := r.flight(ctx, from, to.MAC(), to.Addr().Addr(), 100, to)
		if c != nil {
			name := from.name + "_to_" + to.name
			values = append(values, Fact{name + "_arrived", c[0].came}, Fact{name + "_sent", probeFrames}, Fact{name + "_median_ms", millis(median(c[0].delays))})
		}
		if res.Outcome == stepFailed {
			return res.with(values)
		}
	}
	return pass(values, r.isolation()...)
}

// isolation is what there is to say where nothing has to arrive.
func (r *run) isolation() []string {
	if r.opts.Isolated {
		return []string{"nothing arrives, as isolation asks"}
	}
	return nil
}

// broadcast reaches all guests but its sender.
func (r *run) broadcast(ctx context.Context) Step {
	res, c := r.flight(ctx, r.guests[0], fakeguest.Broadcast, broadcastIP, 100, r.guests[1], r.guests[2])
	if c == nil {
		return res
	}
	values := Facts{{"b_arrived", c[0].came}, {"c_arrived", c[1].came}, {"sent", probeFrames}}
	if res.Outcome == stepFailed {
		return res.with(values)
	}
	return pass(values, r.isolation()...)
}

// fullFrame sends the longest frames that the network takes: to the gateway and between guests.
func (r *run) fullFrame(ctx context.Context) Step {
	mtu := r.mtu()
	values := Facts{{"frame_bytes", mtu + 14}}
	if r.opts.Isolated && !r.gateway().IsValid() {
		return skip("guests are isolated and there is no gateway")
	}
	if !r.opts.Isolated {
		b := r.guests[1]
		if res, _ := r.flight(ctx, r.guests[0], b.MAC(), b.Addr().Addr(), mtu, b); res.Outcome == stepFailed {
			return res.with(values)
		}
	}
	if r.gateway().IsValid() {
		size := min(mtu, 1500) // a host need not take more
		if _, err := r.guests[0].Ping(r.gateway(), size-28); err != nil {
			return fail("%d bytes to the gateway: %v", size+14, err).with(values)
		}
	}
	return pass(values)
}
