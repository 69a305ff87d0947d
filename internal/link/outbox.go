// SPDX-License-Identifier: Apache-2.0

package link

import "github.com/socket-vmnet2/socket_vmnet2/internal/frame"

// A Pipe takes frames for one datagram client without waiting.
type Pipe interface {
	// Send sends the frames of b in order, one datagram each, and returns how many were taken. Fewer than all without an
	// error: there is no room now. An error: the client cannot be reached any more.
	Send(b frame.Batch) (taken int, err error)
	// Wait returns when Send may take something, or when stop is closed. It may return too early. It is called by the
	// drainer alone and never while Send runs.
	Wait(stop <-chan struct{})
}
