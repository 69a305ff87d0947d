// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"time"
)

// recorded looks for the guests in the system's record of leases.
func (r *run) recorded(ctx context.Context) Step {
	start := time.Now()
	for {
		b, err := os.ReadFile(r.opts.LeasesFile)
		if err != nil {
			return fail("%v", err)
		}
		var missing []string
		for _, g := range r.guests {
			if g.lease != nil && !inLeases(string(b), g.MAC()) {
				missing = append(missing, "guest "+g.name)
			}
		}
		if len(missing) == 0 {
			return pass(Facts{{"after_ms", millis(time.Since(start))}})
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
	var digits []string
	for _, b := range mac {
		digits = append(digits, fmt.Sprintf("0?%x", b))
	}
	return regexp.MustCompile(`(?im)^\s*hw_address=1,` + strings.Join(digits, ":") + `$`).MatchString(text)
}

// close closes the guests and the network.
func (r *run) close(context.Context) Step {
	start := time.Now()
	r.unplug(r.first)
	guests := time.Since(start)
	start = time.Now()
	err := r.network.Close()
	took := time.Since(start)
	r.network, r.closed = nil, time.Now()
	values := Facts{{"guests_ms", millis(guests)}, {"network_ms", millis(took)}}
	if err != nil {
		return fail("%v", err).with(values)
	}
	return pass(values)
}

// reopen starts the network again, which must be the same one. The system may need some time to give its subnet free.
func (r *run) reopen(ctx context.Context) Step {
	tries := 0
	var first error
	for r.network == nil {
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
			return fail("not within %s and %d tries: %v", time.Since(r.closed).Round(time.Millisecond), tries, first).with(Facts{{"tries", tries}})
		case <-time.After(100 * time.Millisecond):
		}
	}
	before, now := r.info, r.network.Info()
	r.info = now
	values := Facts{
		{"after_ms", millis(time.Since(r.closed))},
		{"tries", tries},
		{"first_failure", strings.TrimPrefix(because(first), ": ")},
		{"subnet_before", before.Subnet},
		{"subnet_after", now.Subnet}, // empty texts where they are not known
	}
	if before.Subnet != now.Subnet || before.Gateway != now.Gateway {
		return fail("another subnet: %s with gateway %s, before %s with gateway %s", now.Subnet, now.Gateway, before.Subnet, before.Gateway).with(values)
	}
	return pass(values)
}

// sameLease asks for guest a's address again, as a guest does that notices the reconnection or is started again.
func (r *run) sameLease(ctx context.Context) Step {
	old := r.first
	g, err := r.plug(ctx, old.name, old.MAC())
	if err != nil {
		return fail("guest %s: %v", old.name, err)
	}
	r.guests = []*guest{g}
	how, start := "reboot", time.Now()
	if l, err := g.Reboot(old.lease.Addr.Addr()); err == nil {
		g.lease = &l
	} else {
		// A server that has forgotten a guest is silent or says NAK; then the guest asks anew.
		how = "discover"
		if facts, err := r.acquire(ctx, g, leaseTries); err != nil {
			return fail("%v", err).with(facts)
		}
	}
	values := Facts{{"how", how}, {"address", g.lease.Addr.String()}, {"ack_ms", millis(time.Since(start))}}
	if g.lease.Addr != old.lease.Addr {
		return fail("guest %s had %s and has %s now", old.name, old.lease.Addr, g.lease.Addr).with(values)
	}
	return pass(values)
}
