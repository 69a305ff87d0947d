// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
)

// create makes the network object. When ctx ends, or macOS takes too long, it returns; what macOS makes after that is
// released.
func (n *Network) create(ctx context.Context, subnet netip.Prefix) (api.Network, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	type result struct {
		ref api.Network
		err error
	}
	done := make(chan result) // without room: a network is either taken or released
	n.work.Go(func() {
		ref, err := n.opts.API.NewNetwork(n.networkConfig(subnet))
		select {
		case done <- result{ref, err}:
		case <-ctx.Done():
			if err == nil {
				ref.Release()
			}
		}
	})
	select {
	case r := <-done:
		return r.ref, r.err
	case <-ctx.Done():
		if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
			return nil, err
		}
		return nil, fmt.Errorf("make the network: %w", api.ErrNoAnswer)
	}
}

// renew replaces the network object by a new one on the same subnet, when no interface lives on it any more and none can be
// started: the service behind it may have been restarted.
func (n *Network) renew() {
	old := n.ref.Load()
	if old == nil || n.ownCount.Load() > 0 || n.ctx.Err() != nil {
		return
	}
	old.end() // or the subnet would be busy
	ref, err := n.create(n.ctx, n.info.Subnet)
	if err != nil {
		n.log.Warn("the network could not be made again", "error", err)
		return
	}
	if got := ref.Subnet(); got.IsValid() && n.info.Subnet.IsValid() && got != n.info.Subnet {
		ref.Release()
		n.log.Warn("the network was made again, but on another subnet", "subnet", got.String(), "want", n.info.Subnet.String())
		return
	}
	n.ref.Store(newNetRef(ref))
	n.log.Warn("the network object was dead and has been made again")
}

// forgets reports that macOS has forgotten reservations and forwards: a network object loses them as soon as no interface
// is on it any more.
func (n *Network) forgets() bool {
	return n.ref.Load() != nil && n.ownCount.Load() == 0 && len(n.opts.Reservations)+len(n.opts.Forwards) > 0
}
