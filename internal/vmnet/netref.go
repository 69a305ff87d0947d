// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
)

// A netRef is the network object with a count of who needs it: the Network, and every start that is under way. The last one
// releases it, so that a start that hangs finds it alive. Methods of a nil netRef do nothing.
type netRef struct {
	net api.Network

	mu    sync.Mutex
	refs  int
	ended bool
}

func newNetRef(net api.Network) *netRef { return &netRef{net: net, refs: 1} }

// use adds a reference, unless the last one has gone.
func (r *netRef) use() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refs == 0 {
		return false
	}
	r.refs++
	return true
}

// end takes the Network's own reference away, once.
func (r *netRef) end() {
	if r == nil {
		return
	}
	r.mu.Lock()
	again := r.ended
	r.ended = true
	r.mu.Unlock()
	if !again {
		r.drop()
	}
}

// drop takes a reference away.
func (r *netRef) drop() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refs--; r.refs == 0 {
		r.net.Release()
	}
}
