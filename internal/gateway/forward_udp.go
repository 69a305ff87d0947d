// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// A forwardedUDP is the guest's end of one UDP flow from outside.
type forwardedUDP struct {
	*flow
	at    atomic.Pointer[netip.Addr] // of the host, where the last datagram was sent to
	guest *guestConn
}

// serveUDP takes datagrams until the socket is closed. Each sender is a flow of its own: the guest sees a port of the
// gateway for it, and what the guest sends there goes back to it.
func (f *forward) serveUDP() {
	buf := make([]byte, bufSize)
	for {
		f.gw.awake.wait()
		n, from, at, err := f.udp.read(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			f.fail(err)
			f.gw.log.Warn("forwarded port does not take a datagram", "port", f.HostPort, "error", err)
			time.Sleep(acceptPause)
			continue
		}
		f.fail(nil)
		if d := f.flowFrom(from, at); d != nil {
			d.touch()
			if *d.at.Load() != at {
				moved := at
				d.at.Store(&moved)
			}
			d.guest.offer(buf[:n])
		}
	}
}

// flowFrom is the flow of a sender, a new one if need be, nil if there cannot be one now.
func (f *forward) flowFrom(outside netip.AddrPort, at netip.Addr) *forwardedUDP {
	f.mu.Lock()
	d := f.flows[outside]
	f.mu.Unlock()
	if d != nil {
		return d
	}
	e := f.gw.engine
	added := e.flows.add(forwardBit|uint64(f.number), f.newKey(protoUDP))
	if added == nil {
		return nil // all end
	}
	guest := e.dialGuestUDP(f.Guest)
	if guest == nil {
		added.release()
		return nil
	}
	d = &forwardedUDP{flow: added, guest: guest}
	first := at
	d.at.Store(&first)
	f.mu.Lock()
	f.flows[outside] = d
	f.mu.Unlock()
	e.wg.Go(func() {
		defer added.release()
		defer guest.close()
		defer f.forget(outside, d)
		e.answer(d, func(b []byte) { _ = f.udp.write(b, outside, *d.at.Load()) })
	})
	return d
}

func (f *forward) forget(outside netip.AddrPort, d *forwardedUDP) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flows[outside] == d {
		delete(f.flows, outside)
	}
}

// answer passes on what the guest sends, until the flow has been idle for too long or is ended from outside.
func (e *engine) answer(d *forwardedUDP, send func([]byte)) {
	d.onEnd(d.guest.abort)
	idle := e.abortWhenIdle(d)
	defer idle.Stop()
	_ = pump(func(b []byte) (int, error) {
		d.touch()
		send(b)
		return len(b), nil
	}, d.guest.next)
}

// abortWhenIdle starts the timer that ends a flow a minute after its last datagram.
func (e *engine) abortWhenIdle(d *forwardedUDP) *time.Timer {
	var timer *time.Timer
	started := make(chan struct{})
	timer = time.AfterFunc(e.udpIdle(), func() {
		<-started
		if left := time.Duration(d.used.Load()) + e.udpIdle() - d.table.now(); left > 0 {
			timer.Reset(left)
			return
		}
		d.guest.abort()
	})
	close(started)
	return timer
}

// dialGuestUDP makes a port of the gateway that only to can reach.
func (e *engine) dialGuestUDP(to netip.AddrPort) *guestConn {
	wq := new(waiter.Queue)
	ep, err := e.stack.NewEndpoint(udp.ProtocolNumber, header.IPv4ProtocolNumber, wq)
	if err != nil {
		return nil
	}
	err = ep.Bind(e.fullAddress(netip.AddrPortFrom(e.plan.gateway, 0)))
	if err == nil {
		err = ep.Connect(e.fullAddress(to))
	}
	if err != nil {
		ep.Close()
		return nil
	}
	return newGuestUDP(wq, ep)
}
