// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/socket-vmnet2/socket_vmnet2/internal/bridge"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// forwardPorts is the first of the numbers under which the flow table counts forwards, each as if it were one more guest.
// The bridge's own numbers are below.
const forwardPorts bridge.PortID = 1 << 15

// acceptPause is how long a forward waits after an error of its listener, such as too many open files.
const acceptPause = 50 * time.Millisecond

// A forward leads a port of the host to a guest. One of its two sockets is nil.
type forward struct {
	vnet.Forward
	net *Network
	id  bridge.PortID // in the flow table
	tcp net.Listener
	udp *stickySocket

	failing atomic.Pointer[error] // why it took nothing when it was tried last

	mu    sync.Mutex
	flows map[netip.AddrPort]*forwardedUDP // UDP, by the outside's address
}

// latePause is how long a forward waits that could not take its port, before it tries again.
const latePause = time.Second

// A forwards is all of a network.
type forwards struct {
	all []*forward
	wg  sync.WaitGroup // a goroutine each

	mu     sync.Mutex // for the sockets, until they are there
	closed bool
	stop   chan struct{} // closed by close

	last atomic.Uint64 // number of a flow
}

// open listens on the ports of all forwards. On an error none is left open, unless they may come later.
func (fwd *forwards) open(n *Network) error {
	fwd.stop = make(chan struct{})
	for i, f := range n.opts.Forwards {
		fw := &forward{Forward: f, net: n, id: forwardPorts + bridge.PortID(i), flows: map[netip.AddrPort]*forwardedUDP{}}
		if err := fw.listen(); err != nil {
			if !n.opts.LateForwards {
				fwd.close(n)
				return err
			}
			fw.fail(err)
			n.opts.Log.Warn("a port cannot be forwarded yet; trying again", "error", err)
		}
		fwd.all = append(fwd.all, fw)
	}
	return nil
}

// serve starts serving. The gateway is there.
func (fwd *forwards) serve() {
	for _, f := range fwd.all {
		late := !f.listens()
		if !late {
			f.tell()
		}
		fwd.wg.Go(func() {
			if late {
				if !fwd.late(f) {
					return
				}
				f.tell()
			}
			if f.tcp != nil {
				f.serveTCP()
			} else {
				f.serveUDP()
			}
		})
	}
}

func (f *forward) tell() {
	f.net.opts.Log.Info("forwarding a port", "proto", f.Proto, "address", f.address().String(), "guest", f.Guest.String())
}

// late waits until f has its port. It reports false when there is nothing to serve any more.
func (fwd *forwards) late(f *forward) bool {
	for {
		fwd.mu.Lock()
		closed, err := fwd.closed, error(nil)
		if !closed && !f.listens() {
			if err = f.listen(); err == nil {
				f.fail(nil)
			}
		}
		fwd.mu.Unlock()
		if closed || err == nil {
			return !closed
		}
		select {
		case <-time.After(latePause):
		case <-fwd.stop:
		}
	}
}

// listens tells whether f has its port.
func (f *forward) listens() bool { return f.tcp != nil || f.udp != nil }

// close frees the ports. Flows run on: they end with the engine. Nor does it wait for long for a broken one.
func (fwd *forwards) close(n *Network) {
	fwd.mu.Lock()
	fwd.closed = true
	close(fwd.stop)
	for _, f := range fwd.all {
		if f.tcp != nil {
			_ = f.tcp.Close()
		}
		if f.udp != nil {
			_ = f.udp.Close()
		}
	}
	fwd.mu.Unlock()
	done := make(chan struct{})
	go func() { // given up with the engine it is stuck in
		defer close(done)
		fwd.wg.Wait()
	}()
	select {
	case <-done:
	case <-time.After(n.closeTimeout()):
		n.log.Error("embedded network is stuck in a forwarded datagram; its goroutine is given up")
	}
}

// address is where the host listens.
func (f *forward) address() netip.AddrPort {
	a := netip.IPv4Unspecified()
	if f.net.opts.Mode == vnet.ModeHost {
		a = loopback4
	}
	return netip.AddrPortFrom(a, f.HostPort)
}

func (f *forward) listen() (err error) {
	a := f.address()
	if f.Proto == "tcp" {
		var l *net.TCPListener
		if l, err = net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(a)); err == nil {
			f.tcp = l
		}
	} else {
		var c *net.UDPConn
		if c, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(a)); err == nil {
			f.udp = newStickySocket(c)
		}
	}
	what := fmt.Sprintf("forward %s port %d to %s", f.Proto, f.HostPort, f.Guest)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: another program uses that port of this host; end it or forward another port: %w", what, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: this user may not use that port of this host; forward one above 1023: %w", what, err)
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// serveTCP takes connections until the listener is closed.
func (f *forward) serveTCP() {
	for {
		c, err := f.tcp.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			f.fail(err)
			f.net.log.Warn("forwarded port does not take a connection", "port", f.HostPort, "error", err)
			time.Sleep(acceptPause)
		default:
			f.fail(nil)
			f.connect(newHostConn(c))
		}
	}
}

// connect starts the flow of a connection, or ends the connection if there may not be one.
func (f *forward) connect(host *hostConn) {
	e := f.net.gw.enter()
	if e == nil {
		host.abort()
		return
	}
	defer e.wg.Done()
	flow := e.flows.add(f.id, f.newKey(protoTCP))
	if flow == nil {
		e.log.Warn("forwarded TCP connection refused because there are too many", "limit", maxFlows, "port", f.HostPort)
		host.abort()
		return
	}
	e.start(func() {
		defer flow.release()
		defer host.Close()
		e.serveForwarded(flow, host, f.Guest)
	})
}

// newKey numbers a flow from outside. Addresses would not do: one that ends is still there when its ports are used again.
func (f *forward) newKey(p proto) flowKey {
	return flowKey{proto: p, forward: f.net.fwd.last.Add(1)}
}

// serveForwarded is the life of one connection from outside.
func (e *engine) serveForwarded(f *flow, host *hostConn, to netip.AddrPort) {
	ctx, cancel := context.WithTimeout(e.ctx, e.dialTimeout())
	guest := e.dialGuest(ctx, f, to)
	cancel()
	if guest == nil {
		host.abort()
		return
	}
	e.join(f, guest, host)
}

// dialGuest connects to a guest in the gateway's name, nil if it does not answer.
func (e *engine) dialGuest(ctx context.Context, f *flow, to netip.AddrPort) *guestConn {
	wq := new(waiter.Queue)
	ep, err := e.stack.NewEndpoint(tcp.ProtocolNumber, header.IPv4ProtocolNumber, wq)
	if err != nil {
		return nil
	}
	entry, changed := waiter.NewChannelEntry(waiter.WritableEvents | waiter.EventErr | waiter.EventHUp)
	wq.EventRegister(&entry)
	defer wq.EventUnregister(&entry)
	err = ep.Bind(e.fullAddress(netip.AddrPortFrom(e.plan.gateway, 0)))
	if err == nil {
		err = ep.Connect(e.fullAddress(to))
	}
	if _, ok := err.(*tcpip.ErrConnectStarted); ok {
		select {
		case <-changed:
			err = ep.LastError()
		case <-ctx.Done():
			err = &tcpip.ErrTimeout{}
		}
	}
	if err != nil {
		ep.Abort()
		ep.Close()
		return nil
	}
	return newGuestTCP(f, wq, ep)
}

func (e *engine) fullAddress(a netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFrom4(a.Addr().As4()), Port: a.Port()}
}
