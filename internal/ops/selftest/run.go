// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"context"
	"crypto/rand"
	"math"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// run is a run under way. Its steps use it one after the other.
type run struct {
	ctx  context.Context // of the whole run: its end closes the guests, so that no step waits for an answer
	opts Options
	hung string // the step that did not come back; then nothing below is touched any more

	network network.Network // nil while closed
	info    network.Info
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

// plug attaches a guest to the network. mac is nil for a random one, which no server remembers from another run.
func (r *run) plug(ctx context.Context, name string, mac net.HardwareAddr) (*guest, error) {
	if mac == nil {
		mac = net.HardwareAddr{0x5a, 0x32, 0, 0, 0, 0}
		_, _ = rand.Read(mac[2:]) // never fails
	}
	g, err := fakeguest.Attach(ctx, r.network, fakeguest.Options{
		Name: "selftest-" + name, MAC: mac, Timeout: r.opts.Answer, MaxFrame: frame.MaxLen,
	})
	if err != nil {
		return nil, err
	}
	return &guest{Guest: g, name: name, unwatch: context.AfterFunc(r.ctx, g.Close)}, nil
}

// unplug gives the guests' leases back, except that of keep, and closes them.
func (r *run) unplug(keep *guest) {
	for _, g := range r.guests {
		if g.lease != nil && g != keep {
			_ = g.Release(*g.lease)
		}
	}
	_ = closeAll(r.guests)
	r.guests = nil
}

// end closes what the steps left open.
func (r *run) end() {
	r.unplug(nil)
	if r.network != nil {
		_ = r.network.Close()
	}
}

// gateway is the host's address, invalid where nothing is known of one.
func (r *run) gateway() netip.Addr {
	if !r.info.Gateway.IsValid() && len(r.guests) > 0 && r.guests[0].lease != nil {
		return r.guests[0].lease.Gateway
	}
	return r.info.Gateway
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

// missing tells why a step cannot be tried, empty if it can.
func (r *run) missing(s step) string {
	switch {
	case s.needs == needNothing:
	case !r.opened:
		return "the network did not start"
	case s.needs == needClosed && r.network != nil:
		return "the network was not closed"
	case s.needs == needClosed:
	case s.needs == needRecord && r.opts.LeasesFile == "":
		return "only macOS's own DHCP server records leases"
	case r.network == nil:
		return "the network is closed"
	case s.needs <= needNetwork:
	case s.needs <= needRecord:
		if r.first == nil || r.first.lease == nil {
			return "guest a has no lease"
		}
	case len(r.guests) < len(names):
		return "the guests could not be attached"
	case s.needs >= needAddresses && slices.ContainsFunc(r.guests, func(g *guest) bool { return !g.Addr().IsValid() }):
		return "a guest has no address"
	case s.needs == needGateway && !r.gateway().IsValid():
		return "the network has no gateway"
	}
	return ""
}

// because is what follows a statement when its reason is known.
func because(why error) string {
	if why == nil {
		return ""
	}
	return ": " + why.Error()
}

// median is the middle of ds, 0 for none.
func median(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(ds))[len(ds)/2]
}

// spread are the least, the middle and the most of ds.
func spread(ds []time.Duration) Facts {
	if len(ds) == 0 {
		return nil
	}
	return Facts{{"min_ms", millis(slices.Min(ds))}, {"median_ms", millis(median(ds))}, {"max_ms", millis(slices.Max(ds))}}
}

// seconds is d in seconds with three decimals, and millis in milliseconds.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e3) / 1e3 }
func millis(d time.Duration) float64  { return math.Round(float64(d)/1e3) / 1e3 }
