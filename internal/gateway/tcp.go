// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"io"
	"net/netip"
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// addrPort is an address of the stack in the form of net/netip.
func addrPort(a tcpip.Address, port uint16) netip.AddrPort {
	if a.Len() != 4 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(netip.AddrFrom4(a.As4()), port)
}

// recycle makes room for a new connection with the ports of one in TIME_WAIT. The stack would do that itself for a port
// with a listener (RFC 1122, 4.2.2.13), but flows are forwarded without one and the SYN would be ignored: 4 in 1,000 new
// connections of a busy guest waited for 3 s.
func (e *engine) recycle(f []byte) {
	ip := header.IPv4(f[frame.MinLen:])
	if header.Ethernet(f).Type() != header.IPv4ProtocolNumber || ip.TransportProtocol() != header.TCPProtocolNumber || fragmented(ip) {
		return
	}
	h := header.TCP(ip.Payload())
	if len(h) < header.TCPMinimumSize || !opens(h.Flags()) {
		return
	}
	id := stack.TransportEndpointID{
		LocalPort: h.DestinationPort(), LocalAddress: ip.DestinationAddress(),
		RemotePort: h.SourcePort(), RemoteAddress: ip.SourceAddress(),
	}
	ep := e.stack.FindTransportEndpoint(header.IPv4ProtocolNumber, header.TCPProtocolNumber, id, nicID)
	if t, ok := ep.(tcpip.Endpoint); ok && tcp.EndpointState(t.State()) == tcp.StateTimeWait {
		t.Abort()
	}
}

// opens tells whether flags are those of a connection's first segment.
func opens(flags header.TCPFlags) bool {
	return flags&(header.TCPFlagSyn|header.TCPFlagAck|header.TCPFlagRst) == header.TCPFlagSyn
}

// tcpPacket takes a TCP packet that belongs to no connection. False makes the stack answer with a reset. It runs inside
// deliver.
func (e *engine) tcpPacket(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
	h := header.TCP(pkt.TransportHeader().Slice())
	if len(h) < header.TCPMinimumSize || !opens(h.Flags()) {
		return false
	}
	if _, ok := e.tcpTarget(id); !ok {
		return false
	}
	key := flowKey{proto: header.TCPProtocolNumber, id: id}
	if e.flows.lookup(key) != nil {
		return true // a repeated SYN while we dial, or while the last connection with these ports ends
	}
	if !e.gw.mayBegin(e.src) {
		return true // the guest tries again
	}
	f := e.flows.add(e.src, key)
	if f == nil {
		e.gw.log.Warn("TCP connection refused because its guest has too many", "limit", maxFlows,
			"guest", addrPort(id.RemoteAddress, id.RemotePort).String())
		return false
	}
	if !e.tcpFwd.HandlePacket(id, pkt) {
		f.release()
		return false
	}
	return true
}

// tcpTarget is where a connection leads; the zero target with true is the gateway's own DNS server.
func (e *engine) tcpTarget(id stack.TransportEndpointID) (netip.AddrPort, bool) {
	dst := addrPort(id.LocalAddress, id.LocalPort)
	if dst == netip.AddrPortFrom(e.gw.plan.Gateway, portDNS) && e.gw.dns != nil {
		return netip.AddrPort{}, true
	}
	return e.gw.plan.target(dst)
}

// serveTCP is the life of one connection: dial, and only then complete the guest's handshake.
func (e *engine) serveTCP(r *tcp.ForwarderRequest) {
	f := e.flows.lookup(flowKey{proto: header.TCPProtocolNumber, id: r.ID()})
	defer f.release()
	dst, _ := e.tcpTarget(r.ID())
	if !dst.IsValid() {
		if g := e.accept(f, r); g != nil {
			defer g.close()
			f.onEnd(g.abort)
			e.gw.dns.ServeTCP(f.share.src, gonet.NewTCPConn(g.wq, g.ep))
		}
		return
	}
	if e.gw.plan.leadsToPrivate(dst) {
		r.Complete(true)
		return
	}
	host, err := e.dial(f, "tcp4", dst.String())
	if err != nil {
		r.Complete(true)
		return
	}
	defer host.Close()
	if guest := e.accept(f, r); guest != nil {
		join(f, guest, host)
	}
}

// join relays between the two ends of a flow until both have ended, each end passed on as it comes (half-close). An error on either
// side is passed on as a reset.
func join(f *flow, guest *guestConn, host *hostConn) {
	defer guest.close()
	abort := func() { guest.abort(); _ = host.Close() }
	f.onEnd(abort)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := pump(guest.write, host.next); err != nil {
			abort()
		} else {
			guest.closeWrite()
		}
	})
	if err := guest.drainTo(host); err != nil {
		abort()
	} else {
		host.closeWrite()
	}
	wg.Wait()
	host.finish()
	guest.settle()
}

// accept completes the guest's handshake. It returns nil if the guest did not play along.
func (e *engine) accept(f *flow, r *tcp.ForwarderRequest) *guestConn {
	wq := new(waiter.Queue)
	ep, err := r.CreateEndpoint(wq)
	r.Complete(err != nil)
	if err != nil {
		return nil
	}
	return newGuest(f, wq, ep)
}

// pump copies until the orderly end of its source, for which it returns nil.
func pump(write func([]byte) error, next func() (*[bufSize]byte, int, error)) error {
	for {
		buf, n, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = write(buf[:n])
		buffers.Put(buf)
		if err != nil {
			return err
		}
	}
}
