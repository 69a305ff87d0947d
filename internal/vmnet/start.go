// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

const (
	// startTimeout bounds one start of an interface. macOS takes seconds when its services have just come up.
	startTimeout = 10 * time.Second
	// startPause is between attempts to start the network.
	startPause = 250 * time.Millisecond
	// maxStarting bounds the starts at a time, when many interfaces die at once.
	maxStarting = 4
)

// errNoNetwork is returned while there is no network object: between two of them, or at the end.
var errNoNetwork = errors.New("the network object is gone")

// begin starts the network object, if there is to be one, and the anchor, and tries again as long as Options.Patience
// allows and the failure may pass: macOS keeps a subnet busy for a while after its owner died.
func (n *Network) begin(ctx context.Context) (*device, error) {
	start := time.Now()
	last, rounds := start.Add(n.opts.Patience), start.Add(min(n.opts.Patience, DefaultPatience))
	subnet, asked := n.wanted()
	for {
		d, err := n.attempt(ctx, n.choice.API, subnet)
		if err == nil {
			return d, nil
		}
		again := n.mayPass(err) && ctx.Err() == nil
		if !again || time.Now().After(rounds) {
			if subnet.IsValid() && !asked && ctx.Err() == nil {
				n.log.Warn("the subnet of the last start is not to be had, guests get other addresses",
					"subnet", subnet.String(), "error", err)
				subnet = netip.Prefix{}
				continue
			}
			if d, err2 := n.fallBack(ctx, err); err2 == nil {
				return d, nil
			} else if n.choice.Fallback {
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
	if n.opts.Identity == nil || n.choice.API != APINetwork {
		return netip.Prefix{}, false
	}
	subnet, ok := n.opts.Identity.Subnet()
	if !ok {
		return netip.Prefix{}, false
	}
	return subnet, false
}

// fallBack tries the other way after the one chosen has failed with cause.
func (n *Network) fallBack(ctx context.Context, cause error) (*device, error) {
	if !n.choice.Fallback || ctx.Err() != nil {
		return nil, cause
	}
	d, err := n.attempt(ctx, APINetwork, n.opts.Subnet)
	if err != nil {
		return nil, err
	}
	n.log.Warn("plain interfaces do not start, the network is made by vmnet_network_create", "error", cause)
	n.choice = Choice{API: APINetwork, Why: "vmnet_start_interface failed"}
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
	return errors.As(err, &call) && call.Call == callCreate && call.Status == api.Failure
}

// attempt makes the network in one way.
func (n *Network) attempt(ctx context.Context, way string, subnet netip.Prefix) (*device, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	both, cancel := context.WithCancel(n.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	if way == APINetwork {
		ref, err := n.create(both, subnet)
		if err != nil {
			return nil, err
		}
		n.ref.Store(newNetRef(ref))
	}
	d, err := n.startAnchor(both)
	if err == nil {
		if err = n.checkSubnet(d, subnet); err != nil {
			n.await(d.stop())
		}
	}
	if err != nil {
		n.ref.Swap(nil).end()
		return nil, err
	}
	return d, nil
}

// checkSubnet fails when the user asked for a subnet and macOS took another one: guests with addresses of their own, and
// programs that know the gateway, would not find it.
func (n *Network) checkSubnet(d *device, asked netip.Prefix) error {
	got := n.subnet(d)
	if !asked.IsValid() || !got.IsValid() || got == asked || n.opts.NetworkID != [16]byte{} {
		return nil
	}
	return fmt.Errorf("macOS made the subnet %s, not %s as asked for: another program may use it, choose another --vmnet-gateway", got, asked)
}

// networkConfig is the network object with a subnet, invalid for any.
func (n *Network) networkConfig(subnet netip.Prefix) api.NetworkConfig {
	o := &n.opts
	c := api.NetworkConfig{
		Mode: o.Mode, Subnet: subnet, NAT66Prefix: o.NAT66Prefix, MTU: o.MTU,
		DisableNAT44: o.DisableNAT44, DisableNAT66: o.DisableNAT66, DisableDHCP: o.DisableDHCP,
		DisableDNSProxy: o.DisableDNSProxy, DisableRA: o.DisableRA, Reservations: o.Reservations, Forwards: o.Forwards,
	}
	if o.Mode == vnet.ModeShared {
		c.ExternalInterface = o.Interface
	}
	return c
}

// interfaceConfig is an interface with an id.
func (n *Network) interfaceConfig(id [16]byte) api.InterfaceConfig {
	o := &n.opts
	if n.ref.Load() != nil {
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
func (n *Network) startAnchor(ctx context.Context) (*device, error) {
	d, err := n.startDevice(ctx, "anchor", n.id)
	if err != nil {
		return nil, err
	}
	if n.ref.Load() == nil {
		ctx, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()
		for _, f := range n.opts.Forwards {
			if err := d.ifc.Forward(ctx, f); err != nil {
				n.await(d.stop())
				return nil, fmt.Errorf("--vmnet-forward=%s:%d=%s: %w", f.Proto, f.HostPort, f.Guest, err)
			}
		}
	}
	n.logParameters(slog.LevelInfo, d)
	n.anchor.Store(&d.params)
	return d, nil
}

// start starts a client's interface. One that macOS puts into another subnet than the anchor is of no use.
func (n *Network) start(ctx context.Context, who string, id [16]byte) (*device, error) {
	d, err := n.startDevice(ctx, who, id)
	if err != nil {
		return nil, err
	}
	n.logParameters(slog.LevelDebug, d)
	got, want := paramSubnet(d.params), n.info.Subnet
	if got.IsValid() && want.IsValid() && got != want {
		d.stop()
		return nil, n.failed(fmt.Errorf("macOS started it in the subnet %s, not in %s like the others", got, want))
	}
	return d, nil
}

// startDevice starts an interface. When ctx ends it returns at once; what macOS starts after that is stopped, and the room
// that it had meanwhile is offered. For that the call itself goes on without its client.
func (n *Network) startDevice(ctx context.Context, who string, id [16]byte) (*device, error) {
	select {
	case n.starting <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-n.starting }()
	ref := n.ref.Load()
	if !ref.use() {
		return nil, errNoNetwork
	}
	wait, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	started := make(chan *device) // without room: a device is either taken or stopped
	failed := make(chan error, 1)
	config := n.interfaceConfig(id)
	n.work.Go(func() {
		defer ref.drop()
		call, cancel := context.WithTimeout(n.ctx, startTimeout)
		defer cancel()
		ifc, err := n.startCall(call, ref, config)
		if err != nil {
			failed <- err
			return
		}
		d := newDevice(n, who, ifc)
		select {
		case started <- d:
		case <-wait.Done():
			<-d.stop()
			if ctx.Err() != nil { // not if macOS is slow: that would be tried again and again
				n.hub.hintOldest()
			}
		}
	})
	var err error
	select {
	case d := <-started:
		n.starts.Add(1)
		return d, nil
	case err = <-failed:
	case <-wait.Done():
		if err = wait.Err(); errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("start interface: %w", api.ErrNoAnswer)
		}
	}
	return nil, n.failed(err)
}

// failed counts a start that failed and returns err.
func (n *Network) failed(err error) error {
	n.failures.Add(1)
	n.lastFailure.Store(&err)
	return err
}

func (n *Network) startCall(ctx context.Context, ref *netRef, c api.InterfaceConfig) (api.Interface, error) {
	if ref != nil {
		return ref.net.Start(ctx, c)
	}
	return n.opts.API.Start(ctx, c)
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
