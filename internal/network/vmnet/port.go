// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/bridge"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// A port is one client's attachment. It outlives the interface behind it:
//
//	own interface --fault--> down --started again--> own interface
//	                         down --start failed--> shared interface
//	shared interface --there is room--> own interface
//	any --Close--> closed
//
// Its keeper, a goroutine, is the only one to change what is behind it.
type port struct {
	net   *Network
	name  string
	id    network.ID // of the own interface
	sink  frame.Sink
	limit int                 // of the sink, bytes
	macs  []network.MAC       // that were behind the client's former port
	hold  func(frame.Bounded) // as network.PortOptions says

	own    atomic.Pointer[iface]       // at most one of the two; neither while the port is down
	shared atomic.Pointer[bridge.Port] // of the bridge before the shared interface
	writer writer                      // of Send
	seen   seenMACs                    // the client's addresses
	counts counters
	gate   network.Gate // deliveries to the sink

	ctx     context.Context // ends with the port
	cancel  context.CancelFunc
	closed  atomic.Bool
	kept    chan struct{} // closed when the keeper has ended
	room    chan struct{} // told to try for an own interface
	waiting backoff       // used by the keeper
	resting atomic.Bool   // room is for others: the own interface has died, and not for lack of room

	mu   sync.Mutex        // so that Stats sees what shared counts either in it or in past
	past network.PortStats // of ports of the bridge that are closed
}

// counters are a client's frames that were dropped.
type counters struct {
	oversize, refused, exhausted, down, closed atomic.Uint64 // from the client
	lostOversize, lostOdd                      atomic.Uint64 // for the client
}

var _ network.Port = (*port)(nil)

func newPort(n *Network, o network.PortOptions, sink frame.Sink) *port {
	p := &port{
		net: n, name: o.Name, sink: sink, limit: min(sink.MaxFrame(), frame.MaxLen), macs: o.MACs, hold: o.Hold,
		kept: make(chan struct{}), room: make(chan struct{}, 1),
	}
	p.writer = writer{Writer: api.NewWriter(n.writeMax), counts: &p.counts}
	p.gate.Init()
	p.ctx, p.cancel = context.WithCancel(n.ctx)
	return p
}

// Send implements network.Port.
func (p *port) Send(b frame.Batch) {
	faults.In("vmnet.send", b.Bytes())
	if p.closed.Load() {
		p.counts.closed.Add(uint64(b.Len()))
		return
	}
	p.seen.note(b)
	if shared := p.shared.Load(); shared != nil {
		shared.Send(b)
		return
	}
	p.writer.send(p.own.Load(), b)
}

// MaxFrame implements frame.Sink for the bridge. What the client does not take the port leaves out itself.
func (p *port) MaxFrame() int { return frame.MaxLen }

// Deliver implements frame.Sink: it hands b, from the own or the shared interface, to the client's sink.
func (p *port) Deliver(b frame.Batch) {
	if !p.gate.Enter() {
		return
	}
	defer p.gate.Leave()
	if own := p.own.Load(); own != nil && own.maxPacket <= p.limit {
		p.sink.Deliver(b)
		return
	}
	b.Runs(func(f []byte) bool {
		if len(f) <= p.limit {
			return true
		}
		p.counts.lostOversize.Add(1)
		return false
	}, p.sink.Deliver)
}

// Full implements frame.Bounded.
func (p *port) Full() bool {
	sink, ok := p.sink.(frame.Bounded)
	return ok && sink.Full()
}

// Done implements network.Port: a port ends by itself only with the network.
func (p *port) Done() <-chan struct{} { return p.net.ctx.Done() }

// Err implements network.Port.
func (p *port) Err() error {
	if p.net.ctx.Err() != nil {
		return network.ErrClosed
	}
	return nil
}

// Info implements network.Port. While it shares the anchor a client has no interface. Its identity stays, for the MAC address of its
// guest depends on it.
func (p *port) Info() network.PortInfo {
	n := p.net.info
	f := network.PortInfo{MTU: n.MTU, MaxFrame: n.MaxFrame, MAC: network.MACOf(p.id), InterfaceID: network.IDText(p.id), Kind: network.InterfaceShared}
	if i := p.own.Load(); i != nil {
		f.MAC, f.InterfaceID, f.Kind = i.params.MAC, i.params.InterfaceID, network.InterfaceOwn
		f.MaxFrame = min(f.MaxFrame, i.maxPacket)
		f.MTU = min(f.MTU, f.MaxFrame-frame.MinLen)
	}
	return f
}

// Stats implements network.Port.
func (p *port) Stats() network.PortStats {
	c, macs := &p.counts, p.seen.count()
	p.mu.Lock()
	s := p.past
	if b := p.shared.Load(); b != nil {
		s = s.Plus(b.Stats())
		macs = s.MACs
	}
	p.mu.Unlock()
	return s.Plus(network.PortStats{
		Drops: map[network.DropReason]uint64{
			network.DropOversize: c.oversize.Load(), network.DropRefused: c.refused.Load(), network.DropExhausted: c.exhausted.Load(),
			network.DropDown: c.down.Load(), network.DropClosed: c.closed.Load(),
		},
		Lost: map[network.DropReason]uint64{network.DropOversize: c.lostOversize.Load(), dropRunt: c.lostOdd.Load()},
		MACs: macs,
	})
}

// dropRunt counts packets that are shorter than an Ethernet header, or longer than macOS said they would be.
const dropRunt network.DropReason = "drop_runt"

// MACs implements network.Port. Only the bridge needs them.
func (p *port) MACs() []network.MAC {
	if b := p.shared.Load(); b != nil {
		return b.MACs()
	}
	return nil
}

// Close implements network.Port. An interface is stopped, but not waited for longer than stopTimeout.
func (p *port) Close() error {
	p.closed.Store(true)
	p.cancel()
	<-p.gate.Shut() // the sink is called no more, whatever the framework does
	if !p.net.await(p.kept) {
		p.net.log.Warn("vmnet.framework does not stop an interface: it is left behind", "client", p.name)
	}
	p.net.forget(p)
	return nil
}
