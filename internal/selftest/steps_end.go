// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// interfacesTime is how long interfaces are started; the rest of the step is for closing them.
const interfacesTime = 15 * time.Second

// listener is a sink that notes whether a frame of a probe came.
type listener struct {
	want []byte
	once sync.Once
	came chan struct{}
}

// Deliver implements frame.Sink.
func (l *listener) Deliver(b frame.Batch) {
	for it := b.Iter(); it.Next(); {
		if bytes.Equal(it.Frame(), l.want) {
			l.once.Do(func() { close(l.came) })
		}
	}
}

// MaxFrame implements frame.Sink.
func (l *listener) MaxFrame() int { return frame.MaxLen }

// count is what the step interfaces found.
type count struct {
	ports   []vnet.Port
	sinks   []*listener
	took    []time.Duration
	refused error

	sharing int   // ports without an interface of their own
	first   error // why the first one had none, or was refused
	at      int   // how many ports there were before it
}

// interfaces starts as many ports as it may, and checks that a broadcast reaches all of them.
func (r *run) interfaces(ctx context.Context) result {
	probe := []byte(nil)
	if a := r.guests[0]; !r.opts.Isolated && a.Addr().IsValid() {
		probe = frames(a, fakeguest.Broadcast, broadcastIP, 1, 100)[0]
	}
	c := r.start(ctx, probe)
	deaf := r.reach(ctx, c, probe)
	closing := time.Now()
	closed := closeAll(c.ports)
	all := len(r.guests) + len(c.ports)
	values := Facts{
		{"started", all},
		{"own", all - c.sharing},
		{"first_failure", text(c.first)},
		{"first_failure_at", c.at},
		{"start_median_ms", millis(median(c.took))},
		{"start_max_ms", millis(slices.Max(append(c.took, 0)))},
		{"close_ms", millis(time.Since(closing))},
	}
	switch {
	case c.refused != nil:
		return fail("the network refuses port %d: %v", all+1, c.refused).with(values)
	case len(deaf) > 0:
		return fail("a broadcast does not reach %s of %d ports", list(deaf), len(c.ports)).with(values)
	case closed != nil:
		return fail("%v", closed).with(values)
	}
	s := fmt.Sprintf("%d ports, %d with an interface of their own, median start %s", all, all-c.sharing, short(median(c.took)))
	if c.sharing > 0 && !r.opts.SharingAsked {
		s += fmt.Sprintf("; from port %d on shared%s", c.at+1, because(c.first))
	}
	return pass(values, "%s", s)
}

// start attaches ports until there are enough, the network refuses one or the time is over.
func (r *run) start(ctx context.Context, probe []byte) *count {
	c := &count{}
	note := func(ports int) {
		was := c.sharing
		n, why := r.sharing()
		if c.sharing = n; was == 0 && n > 0 {
			c.first, c.at = why, ports-n
		}
	}
	note(len(r.guests))
	end := time.Now().Add(interfacesTime)
	for n := len(r.guests); n < r.opts.Interfaces && time.Now().Before(end) && ctx.Err() == nil; n++ {
		sink := &listener{want: probe, came: make(chan struct{})}
		start := time.Now()
		id := "selftest-" + strconv.Itoa(n+1)
		p, err := r.network.Attach(ctx, vnet.PortOptions{Name: id, ID: id}, sink)
		if err != nil {
			c.refused, c.first, c.at = err, err, n
			break
		}
		c.took = append(c.took, time.Since(start))
		c.ports, c.sinks = append(c.ports, p), append(c.sinks, sink)
		note(n + 1)
	}
	return c
}

// reach broadcasts a frame and returns which ports did not get it.
func (r *run) reach(ctx context.Context, c *count, probe []byte) (deaf []string) {
	if probe == nil || r.guests[0].Send(probe) != nil {
		return nil
	}
	limit := time.NewTimer(r.opts.Answer)
	defer limit.Stop()
	over := false
	for i, s := range c.sinks {
		if !over {
			select {
			case <-s.came:
			case <-limit.C:
				over = true
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-s.came:
		default:
			deaf = append(deaf, strconv.Itoa(len(r.guests)+i+1))
		}
	}
	return deaf
}

// closeAll closes ports, a few at once as a daemon does, and returns the first error.
func closeAll(ports []vnet.Port) error {
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	few := make(chan struct{}, 4)
	for _, p := range ports {
		few <- struct{}{}
		wg.Go(func() {
			if err := p.Close(); err != nil {
				once.Do(func() { first = fmt.Errorf("close a port: %w", err) })
			}
			<-few
		})
	}
	wg.Wait()
	return first
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// recorded looks for the guests in the system's record of leases.
func (r *run) recorded(ctx context.Context) result {
	start := time.Now()
	var missing []string
	for {
		b, err := os.ReadFile(r.opts.LeasesFile)
		if err != nil {
			return fail("%v", err)
		}
		missing = nil
		for _, g := range r.guests {
			if g.lease != nil && !inLeases(string(b), g.MAC()) {
				missing = append(missing, "guest "+g.name)
			}
		}
		if len(missing) == 0 {
			return pass(Facts{{"after_ms", millis(time.Since(start))}}, "all guests are in %s", r.opts.LeasesFile)
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
		if ctx.Err() != nil || time.Since(start) > r.opts.Answer {
			return fail("%s not in %s; programs that look for their guests there, such as minikube, do not find them", strings.Join(missing, ", "), r.opts.LeasesFile)
		}
	}
}

// inLeases tells whether mac has a lease in the text that macOS's bootpd writes: "hw_address=1,5a:32:0:1:2:3".
func inLeases(text string, mac net.HardwareAddr) bool {
	for line := range strings.Lines(text) {
		v, ok := strings.CutPrefix(strings.TrimSpace(line), "hw_address=1,")
		if !ok {
			continue
		}
		var got net.HardwareAddr
		for part := range strings.SplitSeq(v, ":") {
			n, err := strconv.ParseUint(part, 16, 8)
			if err != nil {
				got = nil
				break
			}
			got = append(got, byte(n))
		}
		if bytes.Equal(got, mac) {
			return true
		}
	}
	return false
}

// close closes the guests and the network.
func (r *run) close(context.Context) result {
	start := time.Now()
	r.unplug(r.first)
	guests := time.Since(start)
	n := r.network
	start = time.Now()
	err := n.Close()
	took := time.Since(start)
	r.network, r.closed = nil, time.Now()
	values := Facts{{"guests_ms", millis(guests)}, {"network_ms", millis(took)}}
	if err != nil {
		return fail("%v", err).with(values)
	}
	return pass(values, "guests in %s, network in %s", short(guests), short(took))
}

// reopen starts the network again, which must be the same one. The system may need some time to give its subnet free.
func (r *run) reopen(ctx context.Context) result {
	const pause = 100 * time.Millisecond
	tries := 0
	var first error
	for {
		tries++
		n, err := r.opts.Open(ctx)
		if err == nil {
			r.network = n
			break
		}
		if first == nil {
			first = err
		}
		select {
		case <-ctx.Done():
			return fail("not within %s and %d tries: %v", short(time.Since(r.closed)), tries, first).with(Facts{{"tries", tries}})
		case <-time.After(pause):
		}
	}
	took, before, now := time.Since(r.closed), r.info, r.network.Info()
	r.info = now
	values := Facts{
		{"after_ms", millis(took)},
		{"tries", tries},
		{"first_failure", text(first)},
		{"subnet_before", subnetText(before.Subnet)},
		{"subnet_after", subnetText(now.Subnet)},
	}
	if before.Subnet != now.Subnet || before.Gateway != now.Gateway {
		return fail("another subnet: %s with gateway %s, before %s with gateway %s", now.Subnet, now.Gateway, before.Subnet, before.Gateway).with(values)
	}
	waited := "at once"
	if tries > 1 {
		waited = fmt.Sprintf("at try %d", tries)
	}
	return pass(values, "same subnet, %s, %s after the end of the first one", waited, short(took))
}

func subnetText(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	return p.String()
}

// sameLease asks for guest a's address again, as a guest does that notices the reconnection or is started again.
func (r *run) sameLease(ctx context.Context) result {
	old := r.first
	g, err := r.plug(ctx, old.name, old.MAC())
	if err != nil {
		return fail("guest %s: %v", old.name, err)
	}
	r.guests = []*guest{g}
	how, start := "reboot", time.Now()
	l, err := g.Reboot(old.lease.Addr.Addr())
	if err != nil {
		// A server that has forgotten a guest is silent or says NAK; then the guest asks anew.
		how = "discover"
		var facts Facts
		if _, facts, err = r.acquire(ctx, g, leaseTries); err != nil {
			return fail("%v", err).with(facts)
		}
		l = *g.lease
	}
	g.lease = &l
	values := Facts{{"how", how}, {"address", l.Addr.String()}, {"ack_ms", millis(time.Since(start))}}
	if l.Addr != old.lease.Addr {
		return fail("guest %s had %s and has %s now", old.name, old.lease.Addr, l.Addr).with(values)
	}
	return pass(values, "%s again, by %s after %s", l.Addr.Addr(), strings.ToUpper(how), short(time.Since(start)))
}
