// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

const (
	// startTimeout bounds one start of an interface. macOS takes seconds when its services have just come up.
	startTimeout = 10 * time.Second
	// startPause is between attempts to start the network.
	startPause = 250 * time.Millisecond
	// maxStarting bounds the starts at a time, when many interfaces die at once.
	maxStarting = 4
)

// begin starts the network object, if there is to be one, and the anchor, and tries again as long as Options.Patience
// allows and the failure may pass: macOS keeps a subnet busy for a while after its owner died.
func (n *Network) begin(ctx context.Context) (*iface, error) {
	start := time.Now()
	last, rounds := start.Add(n.opts.Patience), start.Add(min(n.opts.Patience, defaultPatience))
	subnet, asked := n.wanted()
	for {
		d, err := n.attempt(ctx, n.choice.api, subnet)
		if err == nil {
			return d, nil
		}
		again := n.mayPass(err) && ctx.Err() == nil
		if !again || time.Now().After(rounds) {
			if subnet.IsValid() && !asked && ctx.Err() == nil {
				n.log.Warn("the subnet of the last start is taken, guests get other addresses",
					"subnet", subnet.String(), "error", err)
				subnet = netip.Prefix{}
				continue
			}
			if d, err2 := n.fallBack(ctx, err); err2 == nil {
				return d, nil
			} else if n.choice.fallback {
				err = fmt.Errorf("%w; and the other way: %w", err, err2)
			}
		}
		if !again || time.Now().After(last) {
			return nil, err
		}
		n.log.Warn("vmnet does not start, trying again", "error", err)
		if err := sleep(ctx, startPause); err != nil {
			return nil, err
		}
	}
}

// wanted is the subnet to ask for: the user's, or the one of the last start.
func (n *Network) wanted() (subnet netip.Prefix, asked bool) {
	if n.opts.Gateway.IsValid() {
		return n.opts.Subnet, true
	}
	// A plain interface without addresses gets those of macOS's own default network, which stay the same by themselves.
	if n.opts.Identity != nil && n.choice.api == apiNetwork {
		subnet, _ = n.opts.Identity.Subnet()
	}
	return subnet, false
}

// fallBack tries the other way after the one chosen has failed with cause.
func (n *Network) fallBack(ctx context.Context, cause error) (*iface, error) {
	if !n.choice.fallback || ctx.Err() != nil {
		return nil, cause
	}
	d, err := n.attempt(ctx, apiNetwork, n.opts.Subnet)
	if err != nil {
		return nil, err
	}
	n.log.Warn("plain interfaces do not start, the network is made by vmnet_network_create", "error", cause)
	n.choice = choice{api: apiNetwork, why: "vmnet_start_interface failed"}
	return d, nil
}

// mayPass reports whether err is worth another attempt.
func (n *Network) mayPass(err error) bool {
	if n.opts.RetryAll {
		return true
	}
	if errors.Is(err, api.SharingServiceBusy) {
		return true
	}
	// A network object that cannot be made because its subnet is busy fails in general terms.
	var call *api.CallError
	return errors.As(err, &call) && call.Call == "vmnet_network_create" && call.Status == api.Failure
}

// attempt makes the network in one way.
func (n *Network) attempt(ctx context.Context, way string, subnet netip.Prefix) (*iface, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n.object.Store(nil)
	if way == apiNetwork {
		object, err := n.create(ctx, subnet)
		if err != nil {
			return nil, err
		}
		n.object.Store(&object)
	}
	i, err := n.startAnchor(ctx)
	if err == nil {
		if err = n.checkSubnet(i, subnet); err != nil {
			n.await(i.stop())
		}
	}
	if err != nil {
		n.release()
		return nil, err
	}
	return i, nil
}

// checkSubnet fails when the user asked for a subnet and macOS took another one: guests with addresses of their own, and
// programs that know the gateway, would not find it.
func (n *Network) checkSubnet(i *iface, asked netip.Prefix) error {
	got := n.subnet(i)
	if !asked.IsValid() || !got.IsValid() || got == asked || n.opts.NetworkID != [16]byte{} {
		return nil
	}
	return fmt.Errorf("macOS made the subnet %s, not %s as asked for: another program may use it, choose another --vmnet-gateway", got, asked)
}

// interfaceConfig is an interface with an id.
func (n *Network) interfaceConfig(id [16]byte) api.InterfaceConfig {
	o := &n.opts
	if n.object.Load() != nil {
		return api.InterfaceConfig{Isolate: o.Isolate, Offload: o.Offload}
	}
	c := api.InterfaceConfig{
		Mode: o.Mode, SharedInterface: o.Interface, InterfaceID: id, NetworkID: o.NetworkID, NAT66Prefix: o.NAT66Prefix,
		MTU: o.MTU, Isolate: o.Isolate, Offload: o.Offload,
	}
	if o.Gateway.IsValid() {
		c.Start, c.End, c.Mask = o.Gateway, o.DHCPEnd, mask(o.Subnet.Bits())
	}
	return c
}

// startAnchor starts the anchor and logs its parameters as socket_vmnet does.
func (n *Network) startAnchor(ctx context.Context) (*iface, error) {
	i, err := n.startInterface(ctx, "anchor", n.id, false)
	if err != nil {
		return nil, err
	}
	if n.object.Load() == nil {
		ctx, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()
		for _, f := range n.opts.Forwards {
			if err := i.ifc.Forward(ctx, f); err != nil {
				n.await(i.stop())
				return nil, fmt.Errorf("--vmnet-forward=%s: %w", f, err)
			}
		}
	}
	n.logParameters(slog.LevelInfo, i)
	n.anchor.Store(&i.params)
	return i, nil
}

// start starts a client's interface. One that macOS puts into another subnet than the anchor is of no use.
func (n *Network) start(ctx context.Context, name string, id [16]byte) (*iface, error) {
	i, err := n.startInterface(ctx, name, id, true)
	if err != nil {
		return nil, err
	}
	n.own.Add(1)
	n.logParameters(slog.LevelDebug, i)
	got, want := paramSubnet(i.params), n.info.Subnet
	if got.IsValid() && want.IsValid() && got != want {
		i.stop()
		return nil, n.failed(fmt.Errorf("macOS started it in the subnet %s, not in %s like the others", got, want))
	}
	return i, nil
}

// startInterface starts an interface, a client's own or the anchor. When ctx ends it returns at once; what macOS starts after
// that the binding stops.
func (n *Network) startInterface(ctx context.Context, name string, id [16]byte, own bool) (*iface, error) {
	select {
	case n.starting <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-n.starting }()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	start := n.opts.API.Start
	if object := n.object.Load(); object != nil {
		start = (*object).Start
	}
	ifc, err := start(ctx, n.interfaceConfig(id))
	if err != nil {
		return nil, n.failed(err)
	}
	n.starts.Add(1)
	return newInterface(n, name, own, ifc), nil
}

// failed counts a start that failed and returns err.
func (n *Network) failed(err error) error {
	n.failures.Add(1)
	n.lastFailure.Store(&err)
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
