// SPDX-License-Identifier: Apache-2.0

package vmnet

// renew replaces the network object by a new one on the same subnet, when no interface lives on it any more and none can be
// started: the service behind it may have been restarted.
func (n *Network) renew() {
	old := n.ref.Load()
	if old == nil || n.ownCount.Load() > 0 || n.ctx.Err() != nil {
		return
	}
	old.end() // or the subnet would be busy
	ref, err := n.opts.API.NewNetwork(n.networkConfig(n.info.Subnet))
	if err != nil {
		n.quiet.warn("the network could not be made again", "error", err)
		return
	}
	if got := ref.Subnet(); got.IsValid() && n.info.Subnet.IsValid() && got != n.info.Subnet {
		ref.Release()
		n.quiet.warn("the network was made again, but on another subnet", "subnet", got.String(), "want", n.info.Subnet.String())
		return
	}
	n.ref.Store(newNetRef(ref))
	n.log.Warn("the network object was dead and has been made again")
}
