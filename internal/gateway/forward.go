// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"golang.org/x/net/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// forwardBit marks the numbers under which the flow table counts forwards, each as if it were one more guest. Sessions have none
// with this bit.
const forwardBit = 1 << 63

// acceptPause is how long a forward waits after an error of its listener, such as too many open files.
const acceptPause = 50 * time.Millisecond

// A forward leads a port of the host to a guest.
type forward struct {
	network.Forward
	gw     *gateway
	number int // in Config
}

// takeForward serves the forward with that number, whose socket has come. The port is the daemon's.
func (g *gateway) takeForward(number int) error {
	if number < 0 || number >= len(g.cfg.Forwards) || len(g.pair.files) == 0 {
		return fmt.Errorf("forward %d of %d, with %d sockets", number, len(g.cfg.Forwards), len(g.pair.files))
	}
	socket := g.pair.files[0]
	g.pair.files = g.pair.files[1:]
	defer socket.Close() // listeners and connections have duplicates
	f := &forward{Forward: g.cfg.Forwards[number], gw: g, number: number}
	if f.Proto == "tcp" {
		l, err := net.FileListener(socket)
		if err != nil {
			return fmt.Errorf("take the socket of forward %d: %w", number, err)
		}
		go f.serve(func() error { return f.takeConnection(l) })
		return nil
	}
	c, err := net.FilePacketConn(socket)
	if err != nil {
		return fmt.Errorf("take the socket of forward %d: %w", number, err)
	}
	p, buf := ipv4.NewPacketConn(c), make([]byte, bufSize)
	// It tells at which address it was asked, on Linux: otherwise the host would choose which one answers, and the client drop what comes
	// from an address that it has not asked. Elsewhere the host chooses the one that it was asked at if it has no other on that interface.
	if runtime.GOOS == "linux" {
		_ = p.SetControlMessage(ipv4.FlagDst, true) // without that it works all the same on hosts with one address
	}
	go f.serve(func() error { return f.takeDatagram(p, buf) })
	return nil
}

// serve takes what comes to the host's port.
func (f *forward) serve(take func() error) {
	for {
		f.gw.awake.wait()
		err := take()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			f.gw.log.Warn("forwarded port takes nothing for now", "port", f.HostPort, "error", err)
			time.Sleep(acceptPause)
		}
	}
}

// newFlow counts a flow from outside. It is nil if there may not be one.
func (f *forward) newFlow(k flowKey) *flow {
	return f.gw.engine.flows.add(forwardBit|uint64(f.number), k)
}

// takeConnection takes a connection from outside and starts its flow, or ends it if there may not be one.
func (f *forward) takeConnection(l net.Listener) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	host, e := newHostConn(c, &f.gw.awake), f.gw.engine
	flow := f.newFlow(flowKey{proto: header.TCPProtocolNumber})
	if flow == nil {
		f.gw.log.Warn("forwarded TCP connection refused because there are too many", "limit", maxFlows, "port", f.HostPort)
		_ = host.Close()
		return nil
	}
	go func() {
		defer flow.release()
		defer host.Close()
		if guest := e.dialGuest(flow, f.Guest); guest != nil {
			join(flow, guest, host)
		}
	}()
	return nil
}

// takeDatagram takes a datagram from outside. Each sender is a flow of its own: the guest sees a port of the gateway for it, and
// what the guest sends there goes back to it.
func (f *forward) takeDatagram(p *ipv4.PacketConn, buf []byte) error {
	n, at, addr, err := p.ReadFrom(buf)
	if err != nil {
		return err
	}
	if d := f.flowFrom(p, addr.(*net.UDPAddr)); d != nil {
		d.touch()
		if at != nil {
			d.at.Store(&ipv4.ControlMessage{Src: at.Dst})
		}
		d.guest.Load().offer(buf[:n])
	}
	return nil
}

// flowFrom is the flow of a sender, a new one if need be, nil if there cannot be one now.
func (f *forward) flowFrom(p *ipv4.PacketConn, sender *net.UDPAddr) *flow {
	key, e := flowKey{proto: header.UDPProtocolNumber}, f.gw.engine
	key.id.RemoteAddress, key.id.RemotePort = tcpip.AddrFrom4Slice(sender.IP.To4()), uint16(sender.Port)
	key.id.LocalPort = uint16(f.number) // without a local address: a guest's flows have one
	if d := e.flows.lookup(key); d != nil {
		return d
	}
	d := f.newFlow(key)
	if d == nil {
		return nil
	}
	guest := e.dialGuest(d, f.Guest)
	if guest == nil {
		d.release()
		return nil
	}
	d.onEnd(guest.abort)
	go func() {
		defer d.release()
		defer guest.close()
		d.fromGuest(guest, func(b []byte) error {
			if _, err := p.WriteTo(b, d.at.Load(), sender); err != nil { // it may have been asked by a broadcast
				_, _ = p.WriteTo(b, nil, sender)
			}
			return nil
		})
	}()
	return d
}
