// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
)

// pings is how many echo requests one guest sends, pingData their size in bytes.
const (
	pings    = 20
	pingData = 56
	// lostInRow is how many lost ones in a row end the step: each costs an answer's time.
	lostInRow = 3
)

var broadcastIP = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// arp asks for the gateway from every guest.
func (r *run) arp(ctx context.Context) result {
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
		if ctx.Err() != nil {
			return fail("%v", ctx.Err())
		}
	}
	values := Facts{{"gateway_mac", macs[0]}, {"min_ms", millis(slices.Min(took))}, {"median_ms", millis(median(took))}}
	if len(slices.Compact(macs)) > 1 {
		return fail("the gateway has more than one MAC address: %s", strings.Join(macs, ", ")).with(values)
	}
	return pass(values, "%s is at %s, %s median", r.gateway(), macs[0], short(median(took)))
}

// ping sends echo requests to the gateway.
func (r *run) ping(ctx context.Context) result {
	var took []time.Duration
	var last error
	sent, row := 0, 0
	for i := 0; i < pings+len(r.guests)-1 && row < lostInRow && ctx.Err() == nil; i++ {
		g := r.guests[0] // the last ones are from the other guests
		if i >= pings {
			g = r.guests[i-pings+1]
		}
		sent++
		d, err := g.Ping(r.gateway(), pingData)
		if err != nil {
			last = fmt.Errorf("guest %s: %w", g.name, err)
			row++
			continue
		}
		row = 0
		took = append(took, d)
	}
	values := Facts{{"sent", sent}, {"answered", len(took)}}
	if len(took) > 0 {
		values = append(values, Fact{"min_ms", millis(slices.Min(took))}, Fact{"median_ms", millis(median(took))}, Fact{"max_ms", millis(slices.Max(took))})
	}
	if last != nil {
		return fail("%d of %d answered: %v", len(took), sent, last).with(values)
	}
	return pass(values, "%d of %d answered, min %s, median %s, max %s", len(took), sent, short(slices.Min(took)), short(median(took)), short(slices.Max(took)))
}

// unicast sends frames between two guests, both ways. They arrive at their destination and nowhere else.
func (r *run) unicast(ctx context.Context) result {
	a, b := r.guests[0], r.guests[1]
	var values Facts
	var medians []string
	for _, way := range []struct{ from, to *guest }{{a, b}, {b, a}} {
		if !r.opts.Isolated {
			if mac, err := way.from.Resolve(way.to.Addr().Addr()); err != nil {
				return fail("guest %s: %v", way.from.name, err).with(values)
			} else if mac.String() != way.to.MAC().String() {
				return fail("guest %s: %s is at %s, not at guest %s's %s", way.from.name, way.to.Addr().Addr(), mac, way.to.name, way.to.MAC()).with(values)
			}
		}
		res, c := r.flight(ctx, way.from, way.to.MAC(), way.to.Addr().Addr(), 100, way.to)
		if c == nil {
			return res.with(values)
		}
		name := way.from.name + "_to_" + way.to.name
		values = append(values, Fact{name + "_arrived", c[0].arrived()}, Fact{name + "_sent", probeFrames}, Fact{name + "_median_ms", millis(c[0].median())})
		if res.outcome == Fail {
			return res.with(values)
		}
		medians = append(medians, short(c[0].median()))
	}
	if r.opts.Isolated {
		return pass(values, "nothing arrives, as isolation asks")
	}
	return pass(values, "all arrived, median %s and %s one way; the third guest saw none", medians[0], medians[1])
}

// broadcast reaches all guests but its sender.
func (r *run) broadcast(ctx context.Context) result {
	a, b, c := r.guests[0], r.guests[1], r.guests[2]
	res, got := r.flight(ctx, a, fakeguest.Broadcast, broadcastIP, 100, b, c)
	if got == nil {
		return res
	}
	values := Facts{{"b_arrived", got[0].arrived()}, {"c_arrived", got[1].arrived()}, {"sent", probeFrames}}
	switch {
	case res.outcome == Fail:
		return res.with(values)
	case r.opts.Isolated:
		return pass(values, "nothing arrives, as isolation asks")
	}
	return pass(values, "all arrived at both other guests, median %s", short(got[0].median()))
}

// flight sends frames of size bytes of IP packet and judges what became of them: in an isolated network none may arrive,
// else each once at the wanted guests and nowhere else. It returns their catches, nil if there are none.
func (r *run) flight(ctx context.Context, from *guest, mac net.HardwareAddr, ip netip.Addr, size int, wanted ...*guest) (result, []*catch) {
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
	if others := r.strangers(got, expected...); len(others) > 0 {
		what := "that were not for it"
		switch {
		case r.opts.Isolated:
			what = "though guests are isolated"
		case slices.Contains(others, "guest "+from.name):
			what = "that came back from guest " + from.name
		}
		return fail("%s got frames %s", strings.Join(others, " and "), what), catches
	}
	return pass(nil, ""), catches
}

// fullFrame sends the longest frames that the network takes: to the gateway and between guests.
func (r *run) fullFrame(ctx context.Context) result {
	mtu := r.mtu()
	values := Facts{{"frame_bytes", mtu + 14}}
	var done []string
	if !r.opts.Isolated {
		a, b := r.guests[0], r.guests[1]
		res, _ := r.flight(ctx, a, b.MAC(), b.Addr().Addr(), mtu, b)
		if res.outcome == Fail {
			return res.with(values)
		}
		done = append(done, "between guests")
	}
	if r.gateway().IsValid() {
		size := min(mtu, 1500) // a host need not take more
		if _, err := r.guests[0].Ping(r.gateway(), size-28); err != nil {
			return fail("%d bytes to the gateway: %v", size+14, err).with(values)
		}
		done = append(done, "to the gateway and back")
	}
	if len(done) == 0 {
		return skip("guests are isolated and there is no gateway")
	}
	return pass(values, "%d bytes undamaged %s", mtu+14, strings.Join(done, " and "))
}
