// SPDX-License-Identifier: Apache-2.0

package vmnet

import "github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"

// A Status is what the network tells of its interfaces, for status and selftest.
type Status struct {
	API      string     // APINetwork or APIInterface
	Why      string     // that one
	AnchorID [16]byte   // what the clients' interface ids are derived from
	Anchor   api.Params // as the anchor was last started
	Own      int        // clients with an interface of their own
	Shared   int        // clients that share the anchor

	// Counters since New.
	Starts        uint64 // interfaces started, the anchor among them
	StartFailures uint64
	Restarts      uint64 // interfaces that died
	Promoted      uint64 // clients that shared the anchor and got an interface of their own
	Exhausted     uint64 // frames dropped because macOS had no buffer

	LastFailure error // of the last start that failed, nil while none has
}

// Status returns the counters. It may be called after Close.
func (n *Network) Status() Status {
	s := Status{
		API: n.choice.API, Why: n.choice.Why, AnchorID: n.id, Own: int(n.ownCount.Load()), Shared: n.hub.shared(),
		Starts: n.starts.Load(), StartFailures: n.failures.Load(), Restarts: n.restarts.Load(), Promoted: n.promoted.Load(),
		Exhausted: n.exhausted.Load(),
	}
	if err := n.lastFailure.Load(); err != nil {
		s.LastFailure = *err
	}
	if p := n.anchor.Load(); p != nil {
		s.Anchor = *p
	}
	return s
}
