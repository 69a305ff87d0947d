// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"net"
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// udpPacket takes a UDP packet that belongs to no flow and starts one. False makes the stack answer "port unreachable". It
// runs inside deliver.
func (e *engine) udpPacket(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
	dst, ok := e.gw.plan.target(addrPort(id.LocalAddress, id.LocalPort))
	if !ok {
		return false
	}
	if !e.gw.mayBegin(e.src) {
		return true
	}
	f := e.flows.add(e.src, flowKey{proto: header.UDPProtocolNumber, id: id})
	if f == nil {
		return true // the last flow with these ports ends just now
	}
	wq := new(waiter.Queue)
	var guest *guestConn
	// A forwarder is a function call here: the endpoint must be there before the next packet, which is its own then.
	udp.NewForwarder(e.stack, func(r *udp.ForwarderRequest) bool {
		ep, err := r.CreateEndpoint(wq)
		if err == nil {
			guest = newGuest(f, wq, ep)
		}
		return err == nil
	}).HandlePacket(id, pkt)
	if guest == nil {
		f.release()
		return true
	}
	go e.serveUDP(f, guest, dst.String())
	return true
}

// serveUDP is the life of one flow that a guest began. It ends after a minute without a datagram either way, when the host's port
// turns out to be closed, or from outside.
func (e *engine) serveUDP(f *flow, guest *guestConn, dst string) {
	defer f.release()
	defer guest.close()
	host, err := e.dial(f, "udp4", dst)
	if err != nil {
		return
	}
	end := func() { guest.abort(); _ = host.Close() }
	f.onEnd(end)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	wg.Go(func() {
		defer end()
		f.fromGuest(guest, func(b []byte) error {
			if _, err := host.Write(b); errors.Is(err, net.ErrClosed) {
				return err // any other error costs this datagram only
			}
			return nil
		})
	})
	_ = pump(func(b []byte) error {
		f.touch()
		guest.offer(b)
		return nil
	}, host.next)
}

// fromGuest passes on the datagrams of a flow's guest until the flow ends.
func (f *flow) fromGuest(guest *guestConn, send func([]byte) error) {
	_ = pump(func(b []byte) error {
		f.touch()
		return send(b)
	}, guest.next)
}
