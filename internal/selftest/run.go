// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"context"
	"crypto/rand"
	"net"
	"net/netip"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// run is a run under way. Its steps use it one after the other.
type run struct {
	ctx   context.Context // of the whole run: its end closes the guests, so that nobody waits for an answer
	opts  Options
	began time.Time
	hung  string // the step that did not come back; then nothing below is touched any more

	network vnet.Network // nil while closed
	info    vnet.NetworkInfo
	opened  bool
	closed  time.Time // when the first one was
	guests  []*guest  // three once they are attached, one after the network was opened again
	first   *guest    // whose lease is asked for again
}

// guest is a fake guest of the run.
type guest struct {
	*fakeguest.Guest
	name    string // "a", "b", "c"
	lease   *fakeguest.Lease
	unwatch func() bool
}

// names of the guests.
var names = []string{"a", "b", "c"}

func newRun(ctx context.Context, o Options) *run { return &run{ctx: ctx, opts: o, began: time.Now()} }

// plug attaches a guest to the network. mac is nil for a new one.
func (r *run) plug(ctx context.Context, name string, mac net.HardwareAddr) (*guest, error) {
	if mac == nil {
		mac = newMAC()
	}
	g, err := fakeguest.Attach(ctx, r.network, fakeguest.Options{
		Name: "selftest-" + name, MAC: mac, Timeout: r.opts.Answer, MaxFrame: frame.MaxLen,
	})
	if err != nil {
		return nil, err
	}
	return &guest{Guest: g, name: name, unwatch: context.AfterFunc(r.ctx, g.Close)}, nil
}

// newMAC is a random address, so that no server remembers it from another run.
func newMAC() net.HardwareAddr {
	mac := net.HardwareAddr{0x5a, 0x32, 0, 0, 0, 0}
	_, _ = rand.Read(mac[2:]) // never fails
	return mac
}

// unplug gives the guests' leases back, except that of keep, and closes them.
func (r *run) unplug(keep *guest) {
	for _, g := range r.guests {
		if g.lease != nil && g != keep {
			_ = g.Release(*g.lease)
		}
	}
	for _, g := range r.guests {
		g.unwatch()
		g.Close()
	}
	r.guests = nil
}

// end closes what the steps left open.
func (r *run) end() {
	if r.hung != "" {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.unplug(nil)
		if r.network != nil {
			_ = r.network.Close()
		}
	}()
	select {
	case <-done:
	case <-time.After(atEnd):
	}
}

// gateway is the host's address, invalid where nothing is known of one.
func (r *run) gateway() netip.Addr {
	if r.info.Gateway.IsValid() {
		return r.info.Gateway
	}
	if len(r.guests) > 0 && r.guests[0].lease != nil {
		return r.guests[0].lease.Gateway
	}
	return netip.Addr{}
}

// mtu is the smallest one of the guests' ports, in bytes.
func (r *run) mtu() int {
	mtu := r.info.MTU
	if mtu <= 0 {
		mtu = 1500
	}
	for _, g := range r.guests {
		i := g.Port().Info()
		if i.MTU > 0 {
			mtu = min(mtu, i.MTU)
		}
		if i.MaxFrame > 0 {
			mtu = min(mtu, i.MaxFrame-14)
		}
	}
	return min(mtu, frame.MaxLen-14, 65535)
}

// sharing is how many ports have no interface of their own.
func (r *run) sharing() (int, error) {
	if r.opts.Sharing == nil {
		return 0, nil
	}
	return r.opts.Sharing(r.network)
}

func (r *run) needNetwork() string {
	switch {
	case r.network != nil:
		return ""
	case r.opened:
		return "the network is closed"
	}
	return "the network did not start"
}

func (r *run) needClosed() string {
	switch {
	case !r.opened:
		return "the network did not start"
	case r.network != nil:
		return "the network was not closed"
	}
	return ""
}

func (r *run) needGuests() string {
	if missing := r.needNetwork(); missing != "" {
		return missing
	}
	if len(r.guests) < len(names) {
		return "the guests could not be attached"
	}
	return ""
}

func (r *run) needAddresses() string {
	if missing := r.needGuests(); missing != "" {
		return missing
	}
	for _, g := range r.guests {
		if !g.Addr().IsValid() {
			return "guest " + g.name + " has no address"
		}
	}
	return ""
}

func (r *run) needGateway() string {
	if missing := r.needAddresses(); missing != "" {
		return missing
	}
	if !r.gateway().IsValid() {
		return "the network has no gateway"
	}
	return ""
}

func (r *run) needTraffic() string {
	if r.opts.Isolated {
		return "guests are isolated from each other"
	}
	return r.needAddresses()
}

func (r *run) needTrafficAndGateway() string {
	if missing := r.needTraffic(); missing != "" {
		return missing
	}
	return r.needGateway()
}

func (r *run) needRecord() string {
	switch {
	case r.opts.LeasesFile == "":
		return "only macOS's own DHCP server records leases"
	case len(r.guests) == 0 || r.guests[0].lease == nil:
		return "guest a has no lease"
	}
	return ""
}

func (r *run) needLease() string {
	if missing := r.needNetwork(); missing != "" {
		return missing
	}
	if r.first == nil || r.first.lease == nil {
		return "guest a had no lease"
	}
	return ""
}

// facts is all that the network tells of itself.
func (r *run) facts() Facts {
	facts := describe(r.info)
	if r.opts.Describe != nil {
		facts = append(facts, r.opts.Describe(r.network)...)
	}
	return facts
}
