// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/socket-vmnet2/socket_vmnet2/internal/bridge"
	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// maxDatagram is the longest UDP payload that the gateway's own services send, in bytes: what fits the MTU.
func (p *plan) maxDatagram() int {
	return min(p.mtu, MTU) - header.IPv4MinimumSize - header.UDPMinimumSize
}

// Delays before the stack is replaced after a panic: a guest that can provoke one shall not spend the host's time on it.
const (
	minRestartDelay = 100 * time.Millisecond
	maxRestartDelay = 30 * time.Second
)

// closeTimeout is how long a broken stack has to end. A healthy one takes some ten milliseconds.
const closeTimeout = 500 * time.Millisecond

// gateway is one port of the bridge: the frames that reach it, the servers behind it, the frames it sends.
type gateway struct {
	net    *Network
	plan   *plan
	in     *inlet
	out    *outlet
	drops  drops
	engine *engine // replaced with mu held
	joined coalescer

	ran chan struct{} // closed when run has returned

	mu      sync.Mutex
	down    bool          // the engine panicked and is not replaced yet
	restart time.Time     // when it may be
	delay   time.Duration // the last one
	ended   bool          // no new engine
	wg      sync.WaitGroup
}

// run handles frames until the inlet is closed.
func (g *gateway) run() {
	defer close(g.ran)
	for c := g.in.next(); c != nil; c = g.in.next() {
		it := frame.NewBatch(c.buf, c.n).Iter()
		for !g.handleAll(c.src, &it) {
			g.replaceEngine()
		}
		g.in.free(c)
	}
}

// handleAll handles the rest of a chunk. It returns false after a panic, with the frame that caused it behind it.
func (g *gateway) handleAll(src bridge.PortID, it *frame.Iter) (done bool) {
	defer func() {
		if r := recover(); r != nil {
			g.joined.clear()
			g.net.log.Error("embedded network failed on a frame and is restarted; its connections are lost",
				"panic", fmt.Sprint(r), "stack", panicStack())
		}
	}()
	for it.Next() {
		g.handle(src, it.Frame())
	}
	g.flush(src)
	return true
}

func (g *gateway) handle(src bridge.PortID, f []byte) {
	faults.In("usernet.gateway", f)
	if g.net.tune.onFrame != nil {
		g.net.tune.onFrame(f)
	}
	if g.joined.join(f) {
		return
	}
	switch v, d := g.plan.inspect(f); v {
	case dropMalformed:
		g.drops.malformed.Add(1)
	case dropUnwanted:
		g.drops.unwanted.Add(1)
	case toDHCP:
		g.handleDHCP(src, d)
	case toDNS:
		g.handleDNS(src, d)
	case toStack:
		g.toStack(src, f)
	}
}

func (g *gateway) handleDHCP(src bridge.PortID, d datagram) {
	if g.net.dhcp == nil {
		g.drops.unwanted.Add(1)
		return
	}
	r, ok := g.net.dhcp.Handle(uint16(src), d.mac[:], d.payload)
	if ok {
		g.sendUDP(r.MAC, portDHCPServer, netip.AddrPortFrom(r.IP, portDHCPClient), r.Payload)
	}
}

func (g *gateway) handleDNS(src bridge.PortID, d datagram) {
	g.net.dns.HandleUDP(uint16(src), d.payload, g.plan.maxDatagram(), func(answer []byte) {
		g.sendUDP(d.mac[:], portDNS, d.src, answer)
	})
}

// sendUDP sends a datagram of the gateway's own services.
func (g *gateway) sendUDP(mac net.HardwareAddr, port uint16, dst netip.AddrPort, payload []byte) {
	if len(payload) > g.plan.maxDatagram() {
		g.drops.malformed.Add(1)
		return
	}
	var h [frame.MinLen + header.IPv4MinimumSize + header.UDPMinimumSize]byte
	header.Ethernet(h[:]).Encode(&header.EthernetFields{
		SrcAddr: tcpip.LinkAddress(g.plan.mac), DstAddr: tcpip.LinkAddress(mac), Type: header.IPv4ProtocolNumber,
	})
	ip, u := header.IPv4(h[frame.MinLen:]), header.UDP(h[frame.MinLen+header.IPv4MinimumSize:])
	from, to := tcpip.AddrFrom4(g.plan.gateway.As4()), tcpip.AddrFrom4(dst.Addr().As4())
	ip.Encode(&header.IPv4Fields{
		TotalLength: uint16(len(h) - frame.MinLen + len(payload)),
		TTL:         64, Protocol: uint8(header.UDPProtocolNumber), SrcAddr: from, DstAddr: to,
	})
	ip.SetChecksum(^ip.CalculateChecksum())
	length := uint16(header.UDPMinimumSize + len(payload))
	u.Encode(&header.UDPFields{SrcPort: port, DstPort: dst.Port(), Length: length})
	sum := header.PseudoHeaderChecksum(header.UDPProtocolNumber, from, to, length)
	sum = ^u.CalculateChecksum(checksum.Checksum(payload, sum))
	if sum == 0 {
		sum = 0xffff // RFC 768: 0 means no checksum
	}
	u.SetChecksum(sum)
	g.out.put(len(h)+len(payload), h[:], payload)
}

// send sends frames to the bridge. A panic costs these frames.
func (g *gateway) send(b frame.Batch) {
	defer func() {
		if r := recover(); r != nil {
			g.drops.outFull.Add(uint64(b.Len()))
			g.net.log.Error("embedded network failed to send frames", "panic", fmt.Sprint(r), "stack", panicStack())
		}
	}()
	faults.In("usernet.send", b.Bytes())
	g.net.port.Send(b)
}

// current is the engine, nil while a broken one waits to be replaced.
func (g *gateway) current() *engine {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.currentLocked()
}

// enter is current for those who are not on the gateway's goroutine: the engine waits for them, until they call leave on it.
func (g *gateway) enter() *engine {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return nil
	}
	e := g.currentLocked()
	if e != nil {
		e.wg.Add(1)
	}
	return e
}

func (g *gateway) currentLocked() *engine {
	if !g.down {
		return g.engine
	}
	if g.ended || time.Now().Before(g.restart) {
		return nil
	}
	e, err := newEngine(g.net, g.out)
	if err != nil {
		g.restart = time.Now().Add(maxRestartDelay)
		g.net.log.Error("embedded network could not be restarted", "error", err)
		return nil
	}
	g.engine, g.down = e, false
	return e
}

// replaceEngine retires the engine after a panic. Locks in it may be held for ever, so nobody waits for its end for long.
func (g *gateway) replaceEngine() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.down {
		return
	}
	g.down = true
	if time.Since(g.restart) > maxRestartDelay {
		g.delay = 0
	}
	g.delay = min(max(2*g.delay, minRestartDelay), maxRestartDelay)
	g.restart = time.Now().Add(g.delay)
	old := g.engine
	g.wg.Go(func() { g.closeEngine(old) })
}

// closeEngine closes e and waits for it, but not for one that hangs.
func (g *gateway) closeEngine(e *engine) {
	done := make(chan struct{})
	go func() { // its owner is closeEngine, which gives it up with the engine it is stuck in
		defer close(done)
		defer e.contain("embedded network failed while it closed")
		e.close()
	}()
	select {
	case <-done:
	case <-time.After(g.net.closeTimeout()):
		g.net.log.Error("embedded network did not close in time; its goroutines are given up")
	}
}

// closeTimeout of the network, which tests lengthen: on a busy machine a healthy stack may not be scheduled for so long.
func (n *Network) closeTimeout() time.Duration { return orDefault(n.tune.closeTime, closeTimeout) }

// close ends the gateway. The bridge has stopped delivering to the inlet.
func (g *gateway) close() {
	g.in.close()
	select {
	case <-g.ran: // no new flow from here on
	case <-time.After(g.net.closeTimeout()):
		g.net.log.Error("embedded network is stuck in a frame; its goroutine is given up")
	}
	g.mu.Lock()
	g.ended = true
	e := g.engine
	if g.down {
		e = nil
	}
	g.mu.Unlock()
	if e != nil {
		g.closeEngine(e)
	}
	g.wg.Wait()
}

// panicStack is the stack of a panic, cut to what a log line can carry.
func panicStack() string {
	const limit = 4 << 10
	s := debug.Stack()
	return string(s[:min(len(s), limit)])
}

// guestCame and guestGone tell the servers that a port was opened or closed.
func (g *gateway) guestCame(id bridge.PortID) {
	g.flows().guestCame(id)
}

func (g *gateway) guestGone(id bridge.PortID) {
	g.flows().guestGone(id)
	if g.net.dhcp != nil {
		g.net.dhcp.PortGone(uint16(id))
	}
}

func (g *gateway) flows() *flowTable {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.engine.flows
}
