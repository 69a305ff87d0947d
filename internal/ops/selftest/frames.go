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

	// probeFrames is how many frames each probe sends.
	probeFrames = 10
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

// like matches frames with f's token.
func like(f []byte) func([]byte) bool {
	return func(x []byte) bool {
		return len(x) >= tokenAt+8 && bytes.Equal(x[tokenAt:tokenAt+8], f[tokenAt:tokenAt+8])
	}
}

// flight sends frames of size bytes of IP packet, one after the other, and judges what became of them: in an isolated network none may
// arrive, else each once at the wanted guests and nowhere else. It returns how long they took, by guest.
func (r *run) flight(from *guest, mac net.HardwareAddr, ip netip.Addr, size int, wanted ...*guest) (Step, map[*guest][]time.Duration) {
	if r.opts.Isolated {
		wanted = nil
	}
	fs, took, heard := frames(from, mac, ip, probeFrames, size), map[*guest][]time.Duration{}, map[*guest]*fakeguest.Listener{}
	for _, g := range r.guests {
		heard[g] = g.Listen(like(fs[0]))
		defer heard[g].Close()
	}
	for i, f := range fs {
		sent := time.Now()
		if err := from.Send(f); err != nil {
			return fail("guest %s: %v", from.name, err), took
		}
		for _, g := range wanted {
			what := "arrived damaged"
			switch got, err := heard[g].Next(r.opts.Answer); {
			case err != nil:
				what = "did not arrive"
			case bytes.Equal(got, f):
				took[g] = append(took[g], time.Since(sent))
				continue
			case i > 0 && bytes.Equal(got, fs[i-1]):
				what = "arrived twice"
			}
			return fail("from guest %s to guest %s: a frame %s, %d of %d were well", from.name, g.name, what, len(took[g]), len(fs)), took
		}
	}
	return r.strays(from, heard), took
}

// strays waits for frames from a guest that should not come.
func (r *run) strays(from *guest, heard map[*guest]*fakeguest.Listener) Step {
	time.Sleep(settle)
	for _, g := range r.guests {
		if len(heard[g].Collect(0)) == 0 {
			continue
		}
		what := "that were not for it, or came twice"
		switch {
		case r.opts.Isolated:
			what = "though guests are isolated"
		case g == from:
			what = "that came back from guest " + from.name
		}
		return fail("guest %s got frames %s", g.name, what)
	}
	return pass(nil)
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
func (r *run) unicast(context.Context) Step {
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
		res, took := r.flight(from, to.MAC(), to.Addr().Addr(), 100, to)
		name := from.name + "_to_" + to.name
		values = append(values, Fact{name + "_arrived", len(took[to])}, Fact{name + "_sent", probeFrames}, Fact{name + "_median_ms", millis(median(took[to]))})
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
func (r *run) broadcast(context.Context) Step {
	res, took := r.flight(r.guests[0], fakeguest.Broadcast, broadcastIP, 100, r.guests[1], r.guests[2])
	values := Facts{{"b_arrived", len(took[r.guests[1]])}, {"c_arrived", len(took[r.guests[2]])}, {"sent", probeFrames}}
	if res.Outcome == stepFailed {
		return res.with(values)
	}
	return pass(values, r.isolation()...)
}

// fullFrame sends the longest frames that the network takes: to the gateway and between guests.
func (r *run) fullFrame(context.Context) Step {
	mtu := r.mtu()
	values := Facts{{"frame_bytes", mtu + 14}}
	if r.opts.Isolated && !r.gateway().IsValid() {
		return skip("guests are isolated and there is no gateway")
	}
	if !r.opts.Isolated {
		b := r.guests[1]
		if res, _ := r.flight(r.guests[0], b.MAC(), b.Addr().Addr(), mtu, b); res.Outcome == stepFailed {
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
