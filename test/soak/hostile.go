// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// storm is how many frames a flood has at most.
const storm = 5000

// hostilePrefix begins the addresses of those that mean no good. None of their frames is the ledger's.
const hostilePrefix = 0x0e

// A hostile one tries one bad thing after the other.
type hostile struct {
	r     *run
	src   source
	kinds []choice[badThing]
}

func newHostile(r *run, name string, kinds []choice[badThing]) *hostile {
	return &hostile{r: r, src: newSource(r.o.Seed, name), kinds: kinds}
}

// A badThing is tried once with a source of decisions. It returns how many inputs that were.
type badThing struct {
	name string
	try  func(h *hostile, ctx context.Context, s source) int
}

func (h *hostile) run(ctx context.Context) {
	for ctx.Err() == nil {
		bad := pick(h.src, h.kinds)
		if _, ok := h.r.daemon.wait(ctx); ok {
			h.r.totals.count(&h.r.totals.hostile, bad.name, bad.try(h, ctx, newSource(h.src.Uint64(), bad.name)))
		}
		sleep(ctx, h.src.between(0, 4*h.r.o.Pause))
	}
}

// mac is an address of a hostile one: one of few on the simulator, whose bridge has room for no more.
func (h *hostile) mac(s source) net.HardwareAddr {
	n := s.Uint32()
	if h.r.o.Backend == backendSimulator {
		n %= 64
	}
	return net.HardwareAddr{hostilePrefix, 0x66, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

// dial connects to the daemon's socket, or one beside it such as ".d/control". It returns nil when there is no daemon.
func (h *hostile) dial(ctx context.Context, beside string) *net.UnixConn {
	var c net.Conn
	var err error
	lab.As(member, member, func() { c, err = (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", h.r.socket+beside) })
	if err != nil {
		return nil
	}
	_ = c.SetDeadline(time.Now().Add(dialTimeout))
	return c.(*net.UnixConn)
}

// on is a bad thing that is tried on a connection to the daemon's socket, or to one beside it as of dial.
func on(beside, name string, try func(h *hostile, ctx context.Context, s source, c *net.UnixConn) int) badThing {
	return badThing{name, func(h *hostile, ctx context.Context, s source) int {
		c := h.dial(ctx, beside)
		if c == nil {
			return 0
		}
		defer func() { _ = c.Close() }()
		return try(h, ctx, s, c)
	}}
}

// onStream is a bad thing that is written to a stream, which is closed after a while without reading.
func onStream(name string, linger time.Duration, make func(h *hostile, s source) (b []byte, inputs int)) badThing {
	return on("", name, func(h *hostile, ctx context.Context, s source, c *net.UnixConn) int {
		b, n := make(h, s)
		_, _ = c.Write(b)
		sleep(ctx, s.between(0, linger))
		return n
	})
}

// fatal is a bad thing on a stream for which the daemon must close the connection.
func fatal(name string, make func(s source) []byte) badThing {
	return on("", name, func(h *hostile, ctx context.Context, s source, c *net.UnixConn) int {
		life, _ := h.r.daemon.wait(ctx)
		b := frame.Append(nil, h.frame(s, fakeguest.Broadcast, 60))
		_, _ = c.Write(append(b, make(s)...))
		_ = c.SetReadDeadline(time.Now().Add(h.r.o.Patience))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) && !h.r.daemon.excused(life) && ctx.Err() == nil {
			h.r.fail(tolerated, "the daemon did not close a connection after: %s", name)
		}
		return 1
	})
}

// frame is a frame of n bytes that means nothing.
func (h *hostile) frame(s source, dst net.HardwareAddr, n int) []byte {
	f := fakeguest.EthernetFrame(dst, h.mac(s), fakeguest.TypeTest, make([]byte, n-14))
	for i := 18; i < n; i += 7 {
		f[i] = byte(s.Uint32())
	}
	return f
}

// badLengths are streams that go wrong.
func badLengths() []choice[badThing] {
	return []choice[badThing]{
		{18, fatal("stream: any length above", func(s source) []byte {
			return binary.BigEndian.AppendUint32(nil, 69_633+s.Uint32N(1<<31))
		})},
		{10, onStream("stream: runts", 100*time.Millisecond, func(_ *hostile, s source) (b []byte, n int) {
			for n = range 1 + s.IntN(100) {
				b = append(b, 0, 0, 0, byte(n%14))
				b = append(b, make([]byte, n%14)...)
			}
			return b, n + 1
		})},
		{6, onStream("stream: half a prefix", time.Second, func(_ *hostile, s source) ([]byte, int) {
			return make([]byte, 1+s.IntN(3)), 1
		})},
		{8, onStream("stream: half a frame", time.Second, func(h *hostile, s source) ([]byte, int) {
			f := frame.Append(nil, h.frame(s, fakeguest.Broadcast, 14+s.IntN(1500)))
			return f[:5+s.IntN(len(f)-5)], 1
		})},
	}
}

// badFrames are frames that others must survive.
func badFrames() []choice[badThing] {
	return []choice[badThing]{
		{4, onStream("stream: largest frames", 50*time.Millisecond, func(h *hostile, s source) ([]byte, int) {
			n := 65_536 + s.IntN(4097)
			return frame.Append(nil, h.frame(s, h.mac(s), n)), 1
		})},
		{8, onStream("stream: malformed packets", 50*time.Millisecond, func(h *hostile, s source) (b []byte, n int) {
			n = 1 + s.IntN(50)
			for range n {
				b = frame.Append(b, h.malformed(s))
			}
			return b, n
		})},
		{3, onStream("stream: addresses of others as source", 50*time.Millisecond, (*hostile).forged)},
	}
}

// forged are frames that claim to be the gateway's, or a guest's where the network promises to let none of them pass. The first one
// has the hostile one's own address, so that it has one.
func (h *hostile) forged(s source) (b []byte, n int) {
	own := h.frame(s, fakeguest.Broadcast, 60)
	b = frame.Append(b, own)
	n = 1 + s.IntN(50)
	for range n {
		f := slices.Clone(own)
		gw, victim := h.r.watch.mac.Load(), h.r.guests[s.IntN(len(h.r.guests))].owner.Load()
		switch {
		case h.r.o.AntiSpoof && victim != nil && s.IntN(2) == 0:
			copy(f[6:12], victim.conn.MAC)
		case gw != nil && h.r.o.Backend != backendSimulator: // where it is a bridge like any other, it is no gateway's
			copy(f[6:12], gw[:])
		}
		b = frame.Append(b, f)
	}
	return b, n
}

// badFloods are more than a guest needs.
func badFloods() []choice[badThing] {
	return []choice[badThing]{
		{3, onStream("stream: storm to all", 0, func(h *hostile, s source) ([]byte, int) {
			n := 100 + s.IntN(storm)
			return bytes.Repeat(frame.Append(nil, h.frame(s, fakeguest.Broadcast, 60)), n), n
		})},
		{3, onStream("stream: storm to an unknown address", 0, func(h *hostile, s source) ([]byte, int) {
			n := 100 + s.IntN(storm)
			return bytes.Repeat(frame.Append(nil, h.frame(s, net.HardwareAddr{hostilePrefix, 1, 1, 1, 1, 1}, 60)), n), n
		})},
		{4, onStream("stream: a flood of addresses", 0, func(h *hostile, s source) (b []byte, n int) {
			n = 100 + s.IntN(2000)
			me := h.mac(s)
			for range n { // to itself, so that no other client is bothered
				b = frame.Append(b, h.frame(s, me, 60))
				copy(b[len(b)-60:], me)
			}
			return b, n
		})},
		{6, onStream("stream: DHCP flood", 200*time.Millisecond, (*hostile).dhcpFlood)},
		{4, onStream("stream: packets to the gateway", 100*time.Millisecond, (*hostile).gatewayFlood)},
	}
}

// badReaders are those that do not read.
func badReaders() []choice[badThing] {
	return []choice[badThing]{
		{8, badThing{"stream: probes", func(h *hostile, ctx context.Context, s source) int {
			n := 1 + s.IntN(50)
			for range n {
				if c := h.dial(ctx, ""); c != nil {
					_ = c.Close()
				}
			}
			return n
		}}},
		{5, on("", "stream: reads slowly", func(h *hostile, ctx context.Context, s source, c *net.UnixConn) int {
			sender := h.dial(ctx, "")
			if sender == nil {
				return 0
			}
			defer func() { _ = sender.Close() }()
			own := h.frame(s, fakeguest.Broadcast, 60)
			_, _ = c.Write(frame.Append(nil, own))
			more := bytes.Repeat(frame.Append(nil, h.frame(s, own[6:12], 1514)), 100)
			go func() {
				for err := error(nil); err == nil; _, err = sender.Write(more) {
				}
			}()
			for n := range 50 + s.IntN(200) {
				if _, err := c.Read(make([]byte, 1<<s.IntN(18))); err != nil || ctx.Err() != nil {
					return n
				}
				sleep(ctx, s.between(0, 10*time.Millisecond))
			}
			return 1
		})},
		{5, on("", "stream: deaf", func(h *hostile, ctx context.Context, s source, c *net.UnixConn) int {
			_, _ = c.Write(frame.Append(nil, h.frame(s, fakeguest.Broadcast, 60)))
			sleep(ctx, s.between(100*time.Millisecond, 3*time.Second))
			return 1
		})},
	}
}

// malformed is a frame whose packet is not one.
func (h *hostile) malformed(s source) []byte {
	types := []uint16{fakeguest.TypeIPv4, fakeguest.TypeARP, 0x86dd, 0x8100, 0x88cc, 0, 5}
	body := make([]byte, s.IntN(120))
	for i := range body {
		body[i] = byte(s.Uint32())
	}
	if len(body) > 0 && s.IntN(2) == 0 {
		body[0] = 0x45
	}
	dst := fakeguest.Broadcast
	if gw := h.r.watch.mac.Load(); gw != nil && s.IntN(2) == 0 {
		dst = net.HardwareAddr(gw[:])
	}
	return fakeguest.EthernetFrame(dst, h.mac(s), types[s.IntN(len(types))], body)
}

// dhcpFlood asks for more leases than there are, and says what servers do not expect.
func (h *hostile) dhcpFlood(s source) (b []byte, n int) {
	n = 20 + s.IntN(200)
	for range n {
		mac := h.mac(s)
		kind := pick(s, []choice[dhcpv4.MessageType]{
			{60, dhcpv4.MessageTypeDiscover},
			{25, dhcpv4.MessageTypeRequest},
			{5, dhcpv4.MessageTypeRelease},
			{5, dhcpv4.MessageTypeDecline},
			{5, dhcpv4.MessageTypeInform},
		})
		m, err := dhcpv4.New(dhcpv4.WithHwAddr(mac), dhcpv4.WithMessageType(kind),
			dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.IP{192, 168, 105, byte(s.Uint32())})))
		if err != nil {
			continue
		}
		data := m.ToBytes()
		if s.IntN(10) == 0 {
			data = data[:s.IntN(len(data))]
		}
		from, to := netip.AddrPortFrom(netip.IPv4Unspecified(), 68), netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), 67)
		b = frame.Append(b, fakeguest.EthernetFrame(fakeguest.Broadcast, mac, fakeguest.TypeIPv4, fakeguest.UDPPacket(from, to, data)))
	}
	return b, n
}

// gatewayFlood has the gateway answer without a guest that waits.
func (h *hostile) gatewayFlood(s source) (b []byte, n int) {
	gw := h.r.watch.mac.Load()
	if gw == nil {
		return nil, 0
	}
	n = 10 + s.IntN(1000)
	for i := range n {
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 168, 105, byte(100 + s.IntN(100))}), uint16(s.Uint32()))
		var p []byte
		switch i % 5 {
		case 3: // begins a flow with the host, where nothing listens
			p = fakeguest.TCPPacket(from, netip.AddrPortFrom(aliasAddr, 9), fakeguest.TCPSyn, 1, 0)
		case 4:
			p = fakeguest.UDPPacket(from, netip.AddrPortFrom(aliasAddr, 9), nil)
		case 0:
			p = fakeguest.TCPPacket(from, netip.AddrPortFrom(gatewayAddr, uint16(s.Uint32())), byte(s.Uint32()), s.Uint32(), s.Uint32())
		case 1:
			p = fakeguest.UDPPacket(from, netip.AddrPortFrom(gatewayAddr, 53), make([]byte, s.IntN(60)))
		default:
			p = fakeguest.IPv4Packet(from.Addr(), gatewayAddr, fakeguest.ProtoICMP, fakeguest.ICMPMessage(byte(s.Uint32()), 1, 2, make([]byte, s.IntN(60))))
		}
		b = frame.Append(b, fakeguest.EthernetFrame(net.HardwareAddr(gw[:]), h.mac(s), fakeguest.TypeIPv4, p))
	}
	return b, n
}
