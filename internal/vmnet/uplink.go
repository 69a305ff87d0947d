// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"github.com/socket-vmnet2/socket_vmnet2/internal/bridge"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// An uplink is the anchor as a sink of the bridge.
type uplink struct{ *hub }

// MaxFrame implements frame.Sink. What is too long for the anchor is dropped by the outlet.
func (uplink) MaxFrame() int { return frame.MaxLen }

// Deliver implements frame.Sink; the bridge calls DeliverFrom.
func (uplink) Deliver(frame.Batch) {}

// DeliverFrom implements bridge.SourceSink: it runs on the goroutine of the client that sends, within Send.
func (u uplink) DeliverFrom(src bridge.PortID, b frame.Batch) {
	u.linesMu.RLock()
	l, d := u.lines[src], u.out
	u.linesMu.RUnlock()
	switch {
	case l == nil:
	case d == nil || !d.writes.Enter():
		l.out.counts.down.Add(uint64(b.Len()))
	default:
		defer d.writes.Leave()
		l.seen.note(b)
		l.out.send(d, b)
	}
}
