// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// open starts the network.
func (r *run) open(ctx context.Context) Step {
	start := time.Now()
	n, err := r.opts.Open(ctx)
	values := Facts{{"start_ms", millis(time.Since(start))}}
	if err != nil {
		return fail("%v", err).with(values)
	}
	r.network, r.opened, r.info = n, true, n.Info()
	return pass(values)
}

// tell looks at what the network tells of itself.
func (r *run) tell(context.Context) Step {
	i := r.info
	facts := describe(i)
	if r.opts.Describe != nil {
		facts = append(facts, r.opts.Describe(r.network)...)
	}
	inside := func(a netip.Addr) bool { return !a.IsValid() || !i.Subnet.IsValid() || i.Subnet.Contains(a) }
	switch {
	case i.Backend == "" || i.Mode == "":
		return fail("the network does not tell its kind").with(facts)
	case i.MTU < 576 || i.MaxFrame < i.MTU+14:
		return fail("the network's MTU is %d and its longest frame %d bytes, which do not fit together", i.MTU, i.MaxFrame).with(facts)
	case !inside(i.Gateway):
		return fail("the gateway %s is not in the subnet %s", i.Gateway, i.Subnet).with(facts)
	case !inside(i.DHCPStart) || !inside(i.DHCPEnd):
		return fail("the DHCP range %s to %s is not in the subnet %s", i.DHCPStart, i.DHCPEnd, i.Subnet).with(facts)
	}
	return Step{Outcome: stepPassed, Text: i.Backend + ", " + string(i.Mode), Values: facts}
}

// attach plugs the guests in.
func (r *run) attach(ctx context.Context) Step {
	var values Facts
	for _, name := range names {
		start := time.Now()
		g, err := r.plug(ctx, name, nil)
		if err != nil {
			return fail("guest %s: %v", name, err).with(values)
		}
		r.guests = append(r.guests, g)
		values = append(values, Fact{name + "_start_ms", millis(time.Since(start))})
	}
	r.first = r.guests[0]
	shared, why := r.sharing()
	values = append(values, Fact{"sharing", shared})
	if shared > 0 && !r.opts.SharingAsked {
		return fail("%d of %d guests have no interface of their own%s", shared, len(names), because(why)).with(values)
	}
	return pass(values)
}

// leaseTries is how often the first guest asks: a server that is started by its request may lose it.
const leaseTries = 3

// lease gets an address for every guest.
func (r *run) lease(ctx context.Context) Step {
	defer r.setAddresses()
	if !r.info.DHCPStart.IsValid() && r.info.Mode != network.ModeBridged {
		return r.noLease()
	}
	var values Facts
	var bad []string
	beyond := 0
	for i, g := range r.guests {
		full, tries := i > 0 && !r.hasMore(i), leaseTries
		if full || len(bad) > 0 {
			tries = 1
		}
		facts, err := r.acquire(ctx, g, tries)
		values = append(values, facts...)
		switch {
		case err == nil:
		case full && errors.Is(err, fakeguest.ErrTimeout):
			beyond++
		default:
			bad = append(bad, fmt.Sprintf("guest %s: %v", g.name, err))
		}
	}
	switch {
	case len(bad) == len(r.guests) && r.info.Mode == network.ModeBridged:
		return skip("the bridged network has no DHCP server: %s", strings.Join(bad, "; ")).with(values)
	case len(bad) > 0:
		return fail("%s", strings.Join(bad, "; ")).with(values)
	}
	return pass(append(values, Fact{"without_address", beyond}, Fact{"server", r.guests[0].lease.Server.String()}))
}

// hasMore tells whether the DHCP range has more than n addresses, if that is known.
func (r *run) hasMore(n int) bool {
	a := r.info.DHCPStart
	for ; a.IsValid() && n > 0; n-- {
		a = a.Next()
	}
	return !a.IsValid() || !r.info.DHCPEnd.Less(a) || r.info.DHCPEnd.Less(r.info.DHCPStart)
}

// noLease makes sure that a network without DHCP has none.
func (r *run) noLease() Step {
	offer, err := r.guests[0].Discover()
	switch {
	case err == nil:
		return fail("%s is offered by %s, though the network should have no DHCP server", offer.YourIPAddr, offer.ServerIdentifier())
	case errors.Is(err, fakeguest.ErrTimeout):
		return pass(nil, "no DHCP server, as the network tells: no offer within "+r.opts.Answer.String())
	}
	return fail("%v", err)
}

// acquire gets a lease for g.
func (r *run) acquire(ctx context.Context, g *guest, tries int) (Facts, error) {
	err := ctx.Err()
	for try := 1; try <= tries && ctx.Err() == nil; try++ {
		start := time.Now()
		offer, e := g.Discover()
		offered := time.Since(start)
		if err = e; err != nil {
			continue
		}
		l, e := g.Request(offer)
		if err = e; err != nil {
			continue
		}
		given := time.Since(start)
		g.lease = &l
		g.SetAddr(l.Addr, l.Gateway)
		return Facts{
			{g.name + "_address", l.Addr.String()},
			{g.name + "_offer_ms", millis(offered)},
			{g.name + "_ack_ms", millis(given)},
			{g.name + "_tries", try},
		}, r.checkLease(&l)
	}
	return nil, err
}

// checkLease compares a lease with what the network tells of itself.
func (r *run) checkLease(l *fakeguest.Lease) error {
	i, a := r.info, l.Addr.Addr()
	switch {
	case i.DHCPStart.IsValid() && (a.Less(i.DHCPStart) || i.DHCPEnd.Less(a)):
		return fmt.Errorf("%s is not in the range %s to %s", a, i.DHCPStart, i.DHCPEnd)
	case i.Subnet.IsValid() && l.Addr.Masked() != i.Subnet.Masked():
		return fmt.Errorf("%s is not in the subnet %s", l.Addr, i.Subnet)
	case i.Mode == network.ModeShared && i.Gateway.IsValid() && !l.Gateway.IsValid() && !r.opts.NoRouter:
		return fmt.Errorf("the lease names no gateway, the network %s", i.Gateway)
	case i.Mode == network.ModeShared && i.Gateway.IsValid() && l.Gateway.IsValid() && l.Gateway != i.Gateway:
		return fmt.Errorf("the lease names %s as the gateway, the network %s", l.Gateway, i.Gateway)
	case l.Server.IsValid() && i.Gateway.IsValid() && l.Server != i.Gateway:
		return fmt.Errorf("the lease is from %s, not from the gateway %s", l.Server, i.Gateway)
	}
	for _, g := range r.guests {
		if g.lease != nil && g.lease != l && g.lease.Addr.Addr() == a {
			return fmt.Errorf("%s belongs to guest %s already", a, g.name)
		}
	}
	return nil
}

// setAddresses gives addresses to guests that got no lease, so that the other steps can tell something.
func (r *run) setAddresses() {
	subnet := r.info.Subnet
	if !subnet.IsValid() {
		if r.info.Mode == network.ModeBridged {
			return // whose network it is, is not known
		}
		subnet = netip.MustParsePrefix("198.18.0.0/24") // for tests of networks, RFC 2544
	}
	for i, g := range r.guests {
		a := subnet.Masked().Addr()
		for range 240 + i { // behind the leases, in a subnet that is so large
			a = a.Next()
		}
		if !g.Addr().IsValid() && subnet.Contains(a) && a != r.info.Gateway {
			g.SetAddr(netip.PrefixFrom(a, subnet.Bits()), r.info.Gateway)
		}
	}
}

// interfacesTime is how long interfaces are started; the rest of the step is for closing them.
const interfacesTime = 15 * time.Second

// interfaces starts as many ports as it may, and checks that a broadcast reaches all of them.
func (r *run) interfaces(ctx context.Context) Step {
	var more []*guest
	var took []time.Duration
	var refused error
	all := len(r.guests)
	for end := time.Now().Add(interfacesTime); all < r.opts.Interfaces && time.Now().Before(end) && ctx.Err() == nil; all++ {
		start := time.Now()
		g, err := r.plug(ctx, strconv.Itoa(all+1), nil)
		if err != nil {
			refused = err
			break
		}
		took = append(took, time.Since(start))
		more = append(more, g)
	}
	sharing, first := r.sharing()
	at := 0 // how many ports there were before the first one that was refused, or has no interface of its own
	if refused != nil {
		first, at = refused, all
	} else if sharing > 0 {
		at = all - sharing
	}
	deaf := r.deaf(ctx, more)
	closing := time.Now()
	closed := closeAll(more)
	values := Facts{
		{"started", all},
		{"own", all - sharing},
		{"first_failure", strings.TrimPrefix(because(first), ": ")},
		{"first_failure_at", at},
		{"start_median_ms", millis(median(took))},
		{"start_max_ms", millis(slices.Max(append(took, 0)))},
		{"close_ms", millis(time.Since(closing))},
	}
	switch {
	case refused != nil:
		return fail("the network refuses port %d: %v", all+1, refused).with(values)
	case len(deaf) > 0:
		return fail("a broadcast does not reach port %s of %d", strings.Join(deaf, ", "), all).with(values)
	case closed != nil:
		return fail("close a port: %v", closed).with(values)
	}
	return pass(values)
}

// deaf broadcasts a frame and returns which guests of more did not get it.
func (r *run) deaf(ctx context.Context, more []*guest) (ports []string) {
	from := r.guests[0]
	if r.opts.Isolated || !from.Addr().IsValid() {
		return nil
	}
	f := frames(from, fakeguest.Broadcast, broadcastIP, 1, 100)[0]
	heard := make([]*fakeguest.Listener, len(more))
	for i, g := range more {
		heard[i] = g.Listen(like(f))
	}
	if from.Send(f) != nil {
		return nil
	}
	end := time.Now().Add(r.opts.Answer)
	for i, g := range more {
		if _, err := heard[i].Next(time.Until(end)); err != nil && ctx.Err() == nil {
			ports = append(ports, g.name)
		}
	}
	return ports
}

// closeAll closes guests, a few at once as a daemon does, and returns an error of one of their ports.
func closeAll(guests []*guest) error {
	var wg sync.WaitGroup
	failed := make(chan error, len(guests))
	few := make(chan struct{}, 4)
	for _, g := range guests {
		few <- struct{}{}
		wg.Go(func() {
			if err := g.Port().Close(); err != nil {
				failed <- err
			}
			g.unwatch()
			g.Close()
			<-few
		})
	}
	wg.Wait()
	close(failed)
	return <-failed
}
