// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// open starts the network.
func (r *run) open(ctx context.Context) result {
	start := time.Now()
	n, err := r.opts.Open(ctx)
	took := time.Since(start)
	if err != nil {
		return fail("%v", err).with(Facts{{"start_ms", millis(took)}})
	}
	r.network, r.opened, r.info = n, true, n.Info()
	return pass(Facts{{"start_ms", millis(took)}}, "started in %s", short(took))
}

// tell looks at what the network tells of itself.
func (r *run) tell(context.Context) result {
	facts := r.facts()
	if err := check(r.info); err != nil {
		return fail("%v", err).with(facts)
	}
	parts := []string{r.info.Backend + ", " + string(r.info.Mode)}
	if r.info.Subnet.IsValid() {
		parts = append(parts, r.info.Subnet.String())
	}
	if r.info.DHCPStart.IsValid() {
		parts = append(parts, fmt.Sprintf("leases %s to %s", r.info.DHCPStart, r.info.DHCPEnd))
	}
	return pass(facts, "%s, MTU %d", strings.Join(parts, ", "), r.info.MTU)
}

// check finds what cannot be in what a network tells.
func check(i vnet.NetworkInfo) error {
	switch {
	case i.Backend == "" || i.Mode == "":
		return errors.New("the network does not tell its kind")
	case i.MTU < 576 || i.MaxFrame < i.MTU+14:
		return fmt.Errorf("the network's MTU is %d and its longest frame %d bytes, which do not fit together", i.MTU, i.MaxFrame)
	case i.Subnet.IsValid() && i.Gateway.IsValid() && !i.Subnet.Contains(i.Gateway):
		return fmt.Errorf("the gateway %s is not in the subnet %s", i.Gateway, i.Subnet)
	case i.DHCPStart.IsValid() && i.Subnet.IsValid() && !(i.Subnet.Contains(i.DHCPStart) && i.Subnet.Contains(i.DHCPEnd)):
		return fmt.Errorf("the DHCP range %s to %s is not in the subnet %s", i.DHCPStart, i.DHCPEnd, i.Subnet)
	}
	return nil
}

// attach plugs the guests in.
func (r *run) attach(ctx context.Context) result {
	var values Facts
	var took []string
	for _, name := range names {
		start := time.Now()
		g, err := r.plug(ctx, name, nil)
		d := time.Since(start)
		if err != nil {
			return fail("guest %s: %v", name, err).with(values)
		}
		r.guests = append(r.guests, g)
		values = append(values, Fact{name + "_start_ms", millis(d)})
		took = append(took, short(d))
	}
	r.first = r.guests[0]
	shared, why := r.sharing()
	values = append(values, Fact{"sharing", shared})
	if shared > 0 && !r.opts.SharingAsked {
		return fail("%d of %d guests have no interface of their own%s", shared, len(names), because(why)).with(values)
	}
	return pass(values, "%d guests, started in %s", len(names), strings.Join(took, ", "))
}

// because is what follows a statement when its reason is known.
func because(why error) string {
	if why == nil {
		return ""
	}
	return ": " + why.Error()
}

// lease gets an address for every guest.
func (r *run) lease(ctx context.Context) result {
	defer r.setAddresses()
	if !r.info.DHCPStart.IsValid() && r.info.Mode != vnet.ModeBridged {
		return r.noLease()
	}
	var values Facts
	var texts, bad []string
	beyond := 0 // guests for which the range has no address
	for i, g := range r.guests {
		tries := leaseTries
		if len(bad) > 0 || i >= r.poolSize() {
			tries = 1
		}
		l, facts, err := r.acquire(ctx, g, tries)
		values = append(values, facts...)
		switch {
		case err == nil:
			texts = append(texts, l.Addr.Addr().String())
		case i >= r.poolSize() && errors.Is(err, fakeguest.ErrTimeout):
			beyond++
		default:
			bad = append(bad, fmt.Sprintf("guest %s: %v", g.name, err))
		}
	}
	switch {
	case len(bad) == len(r.guests) && r.info.Mode == vnet.ModeBridged:
		return skip("the bridged network has no DHCP server: %s", strings.Join(bad, "; ")).with(values)
	case len(bad) > 0:
		return fail("%s", strings.Join(bad, "; ")).with(values)
	}
	offer, _ := values.Value("a_offer_ms").(float64)
	ack, _ := values.Value("a_ack_ms").(float64)
	server := r.guests[0].lease.Server
	s := fmt.Sprintf("%s from %s, the first one offered after %.3g ms and given after %.3g ms", strings.Join(texts, ", "), server, offer, ack)
	if beyond > 0 {
		s += fmt.Sprintf("; the range has none for %d more", beyond)
	}
	return pass(values, "%s", s)
}

// poolSize is how many addresses the DHCP range has, as far as more than there are guests do not matter.
func (r *run) poolSize() int {
	n := 0
	for a := r.info.DHCPStart; a.IsValid() && n < len(r.guests) && !r.info.DHCPEnd.Less(a); a = a.Next() {
		n++
	}
	if n == 0 { // unknown, or not what the network says it is
		return len(r.guests)
	}
	return n
}

// noLease makes sure that a network without DHCP has none.
func (r *run) noLease() result {
	offer, err := r.guests[0].Discover()
	switch {
	case err == nil:
		return fail("%s is offered by %s, though the network should have no DHCP server", offer.YourIPAddr, offer.ServerIdentifier())
	case errors.Is(err, fakeguest.ErrTimeout):
		return pass(nil, "no DHCP server, as the network tells: no offer within %s", short(r.opts.Answer))
	}
	return fail("%v", err)
}

// leaseTries is how often the first guest asks: a server that is started by its request may lose it.
const leaseTries = 3

// acquire gets a lease for g.
func (r *run) acquire(ctx context.Context, g *guest, tries int) (*fakeguest.Lease, Facts, error) {
	var err error
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
		return &l, Facts{
			{g.name + "_address", l.Addr.String()},
			{g.name + "_offer_ms", millis(offered)},
			{g.name + "_ack_ms", millis(given)},
			{g.name + "_tries", try},
		}, r.checkLease(&l)
	}
	if err == nil {
		err = ctx.Err()
	}
	return nil, nil, err
}

// checkLease compares a lease with what the network tells of itself.
func (r *run) checkLease(l *fakeguest.Lease) error {
	i, a := r.info, l.Addr.Addr()
	switch {
	case i.DHCPStart.IsValid() && (a.Less(i.DHCPStart) || i.DHCPEnd.Less(a)):
		return fmt.Errorf("%s is not in the range %s to %s", a, i.DHCPStart, i.DHCPEnd)
	case i.Subnet.IsValid() && l.Addr.Masked() != i.Subnet.Masked():
		return fmt.Errorf("%s is not in the subnet %s", l.Addr, i.Subnet)
	case i.Mode == vnet.ModeShared && i.Gateway.IsValid() && l.Gateway != i.Gateway && (l.Gateway.IsValid() || !r.opts.NoRouter):
		return fmt.Errorf("the lease names %s as the gateway, the network %s", orNobody(l.Gateway), i.Gateway)
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

// orNobody is a for people.
func orNobody(a netip.Addr) string {
	if !a.IsValid() {
		return "nobody"
	}
	return a.String()
}

// setAddresses gives addresses to guests that got no lease, so that the other steps can tell something.
func (r *run) setAddresses() {
	subnet := r.info.Subnet
	if !subnet.IsValid() {
		if r.info.Mode == vnet.ModeBridged {
			return // whose network it is, is not known
		}
		subnet = netip.MustParsePrefix("198.18.0.0/24") // for tests of networks, RFC 2544
	}
	free := freeAddresses(subnet, r.info.Gateway)
	for _, g := range r.guests {
		if g.Addr().IsValid() {
			continue
		}
		a, ok := free()
		if !ok {
			return
		}
		g.SetAddr(netip.PrefixFrom(a, subnet.Bits()), r.info.Gateway)
	}
}

// freeAddresses hands out addresses from the end of a subnet. The last one is left out: usernet's alias for the host.
func freeAddresses(subnet netip.Prefix, gateway netip.Addr) func() (netip.Addr, bool) {
	b := subnet.Masked().Addr().As4()
	host := uint32(1)<<(32-subnet.Bits()) - 1
	for i := range b {
		b[i] |= byte(host >> (24 - 8*i))
	}
	next := netip.AddrFrom4(b).Prev()
	return func() (netip.Addr, bool) {
		if next = next.Prev(); next == gateway {
			next = next.Prev()
		}
		return next, subnet.Contains(next) && next != subnet.Masked().Addr()
	}
}

// short is d with three digits, for people.
func short(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}
