// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// forwardBit marks the numbers under which the flow table counts forwards, each as if it were one more guest. Sessions have none
// with this bit.
const forwardBit = 1 << 63

// acceptPause is how long a forward waits after an error of its listener, such as too many open files.
const acceptPause = 50 * time.Millisecond

// A forward leads a port of the host to a guest. One of its two sockets is nil.
type forward struct {
	network.Forward
	gw     *gateway
	number int // in Config
	tcp    net.Listener
	udp    *stickySocket

	failing atomic.Pointer[string] // why it took nothing when it was tried last, as the daemon was told

	mu    sync.Mutex
	flows map[netip.AddrPort]*forwardedUDP // UDP, by the outside's address
}

// A forwards is those whose sockets have come.
type forwards struct {
	all     []*forward
	serving bool
	wg      sync.WaitGroup // a goroutine each
	last    atomic.Uint64  // number of a flow
}

// add takes the socket of the forward with that number.
func (fwd *forwards) add(g *gateway, number int, socket *os.File) error {
	defer socket.Close() // listeners and connections have duplicates
	if number < 0 || number >= len(g.cfg.Forwards) {
		return fmt.Errorf("take the socket of forward %d: there are %d", number, len(g.cfg.Forwards))
	}
	f := &forward{Forward: g.cfg.Forwards[number], gw: g, number: number, flows: map[netip.AddrPort]*forwardedUDP{}}
	if f.Proto == "tcp" {
		l, err := net.FileListener(socket)
		if err != nil {
			return fmt.Errorf("take the socket of forward %d: %w", number, err)
		}
		f.tcp = l
	} else {
		c, err := net.FilePacketConn(socket)
		if err != nil {
			return fmt.Errorf("take the socket of forward %d: %w", number, err)
		}
		u, ok := c.(*net.UDPConn)
		if !ok {
			return errors.Join(fmt.Errorf("take the socket of forward %d: it is %T", number, c), c.Close())
		}
		f.udp = newStickySocket(u)
	}
	fwd.all = append(fwd.all, f)
	if fwd.serving {
		fwd.wg.Go(f.serve)
	}
	return nil
}

// serve starts serving.
func (fwd *forwards) serve() {
	fwd.serving = true
	for _, f := range fwd.all {
		fwd.wg.Go(f.serve)
	}
}

// close leaves the ports to the daemon. Flows run on: they end with the engine.
func (fwd *forwards) close() {
	for _, f := range fwd.all {
		if f.tcp != nil {
			_ = f.tcp.Close()
		} else {
			_ = f.udp.Close()
		}
	}
	fwd.wg.Wait()
}

func (f *forward) serve() {
	if f.tcp != nil {
		f.serveTCP()
	} else {
		f.serveUDP()
	}
}

// fail tells the daemon why f takes nothing now, with nil that it does again.
func (f *forward) fail(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if was := f.failing.Swap(&text); was == nil && text == "" || was != nil && *was == text {
		return
	}
	f.gw.out.putMessage(KindFailing, Failing{Forward: f.number, Error: text})
}

// serveTCP takes connections until the listener is closed.
func (f *forward) serveTCP() {
	for {
		f.gw.awake.wait()
		c, err := f.tcp.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			f.fail(err)
			f.gw.log.Warn("forwarded port does not take a connection", "port", f.HostPort, "error", err)
			time.Sleep(acceptPause)
		default:
			f.fail(nil)
			f.connect(newHostConn(c))
		}
	}
}

// connect starts the flow of a connection, or ends the connection if there may not be one.
func (f *forward) connect(host *hostConn) {
	e := f.gw.engine
	flow := e.flows.add(forwardBit|uint64(f.number), f.newKey(protoTCP))
	if flow == nil {
		e.log.Warn("forwarded TCP connection refused because there are too many", "limit", maxFlows, "port", f.HostPort)
		host.abort()
		return
	}
	e.wg.Go(func() {
		defer flow.release()
		defer host.Close()
		e.serveForwarded(flow, host, f.Guest)
	})
}

// newKey numbers a flow from outside. Addresses would not do: one that ends is still there when its ports are used again.
func (f *forward) newKey(p proto) flowKey {
	return flowKey{proto: p, forward: f.gw.fwd.last.Add(1)}
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
