// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// udpPacket takes a UDP packet that belongs to no flow and starts one. False makes the stack answer "port unreachable". It
// runs inside deliver.
func (e *engine) udpPacket(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
	dst, ok := e.plan.target(addrPort(id.LocalAddress, id.LocalPort))
	if !ok {
		return false
	}
	f := e.flows.add(e.src, flowKey{proto: protoUDP, id: id})
	if f == nil {
		return true // the last flow with these ports ends just now, or all do
	}
	wq := new(waiter.Queue)
	var guest *guestConn
	// A forwarder is a function call here: the endpoint must be there before the next packet, which is its own then.
	udp.NewForwarder(e.stack, func(r *udp.ForwarderRequest) bool {
		ep, err := r.CreateEndpoint(wq)
		if err == nil {
			guest = newGuestUDP(wq, ep)
		}
		return err == nil
	}).HandlePacket(id, pkt)
	if guest == nil {
		f.release()
		return true
	}
	e.wg.Go(func() {
		defer f.release()
		defer guest.close()
		e.serveUDP(f, guest, dst.String())
	})
	return true
}

// serveUDP is the life of one flow. It ends after a minute without a datagram either way, when the host's port turns out
// to be closed, or from outside.
func (e *engine) serveUDP(f *flow, guest *guestConn, dst string) {
	c, err := e.dial("udp4", dst)
	if err != nil {
		return
	}
	host := newHostConn(c)
	end := sync.OnceFunc(func() { guest.abort(); _ = host.Close() })
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	f.onEnd(end)
	wg.Go(func() {
		defer end()
		_ = pump(func(b []byte) (int, error) {
			f.touch()
			if _, err := host.Write(b); errors.Is(err, net.ErrClosed) {
				return 0, err // any other error costs this datagram only
			}
			return len(b), nil
		}, guest.next)
	})
	_ = pump(func(b []byte) (int, error) {
		f.touch()
		_, _ = guest.Write(b) // a datagram the stack has no room for is lost, as on any network
		return len(b), nil
	}, func() (*[bufSize]byte, int, error) { return e.nextDatagram(f, host) })
}

// nextDatagram reads from the host until the flow has been idle for too long.
func (e *engine) nextDatagram(f *flow, host *hostConn) (*[bufSize]byte, int, error) {
	for {
		left := time.Duration(f.used.Load()) + e.udpIdle() - f.table.now()
		if left <= 0 {
			return nil, 0, os.ErrDeadlineExceeded
		}
		_ = host.SetReadDeadline(time.Now().Add(left))
		e.awake.wait()
		buf, n, err := host.next(false)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return buf, n, err
		}
	}
}
