// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// create makes a network object with a subnet, invalid for any. When ctx ends, or macOS takes too long, it returns; what macOS
// makes after that is released.
func (n *Network) create(ctx context.Context, subnet netip.Prefix) (api.Network, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("make the network: %w", api.ErrNoAnswer))
	defer cancel()
	type result struct {
		object api.Network
		err    error
	}
	done := make(chan result) // without room: a network is either taken or released
	c := n.opts.NetworkConfig
	c.Subnet = subnet
	if c.Mode == network.ModeShared {
		c.ExternalInterface = n.opts.Interface
	}
	n.work.Go(func() {
		object, err := n.opts.API.NewNetwork(c)
		select {
		case done <- result{object, err}:
		case <-ctx.Done():
			if err == nil {
				object.Release()
			}
		}
	})
	select {
	case r := <-done:
		return r.object, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// renew replaces the network object by a new one on the same subnet, when no interface lives on it any more and none can be
// started: the service behind it may have been restarted.
func (n *Network) renew() {
	old := n.object.Load()
	if old == nil || n.own.Load() > 0 || n.ctx.Err() != nil {
		return
	}
	(*old).Release() // or the subnet would be busy
	object, err := n.create(n.ctx, n.info.Subnet)
	if err != nil {
		n.log.Warn("the network could not be made again", "error", err)
		return
	}
	if got := object.Subnet(); got.IsValid() && n.info.Subnet.IsValid() && got != n.info.Subnet {
		object.Release()
		n.log.Warn("the network was made again, but on another subnet", "subnet", got.String(), "want", n.info.Subnet.String())
		return
	}
	n.object.Store(&object)
	n.log.Warn("the network object was dead and has been made again")
}

// forgets reports that macOS has forgotten reservations and forwards: a network object loses them as soon as no interface
// is on it any more.
func (n *Network) forgets() bool {
	return n.object.Load() != nil && n.own.Load() == 0 && len(n.opts.Reservations)+len(n.opts.Forwards) > 0
}

// release lets go of the network object, if there is one.
func (n *Network) release() {
	if object := n.object.Load(); object != nil {
		(*object).Release()
	}
}
