// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/usernet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// faults break the embedded network in one way each, to prove that a step notices.
type faults struct {
	mode     network.Mode
	isolate  bool          // guests do not reach each other
	noDHCP   bool          // there is no DHCP server, and the network says so
	hideDHCP bool          // there is one, and the network says there is none
	dhcpEnd  string        // last address of the range
	noNAT44  bool          // there is no way out
	slow     time.Duration // opening and attaching take so long

	wrongRange      bool // the network tells a DHCP range that is not in its subnet
	noKind          bool // the network does not tell what it is
	maxPorts        int  // more are refused
	ownPorts        int  // more share an interface
	noLease         bool // DHCP requests are lost
	sameLease       bool // every ACK gives the same address
	noARP           bool // ARP requests for the gateway are lost
	noPing          bool // pings to the gateway are lost
	losePing        int  // every so manieth ping is lost
	loseUnicast     bool // nothing passes from guest to guest
	floodUnicast    bool // what passes from guest to guest reaches all
	mirrorUnicast   bool // and comes back
	corrupt         bool // probes are damaged
	twice           bool // probes arrive twice
	loseBroadcast   bool // probes to all are lost
	mirrorBroadcast bool // and come back
	deafPort        int  // this one, counted from 1, hears no probes to all
	maxLen          int  // longer frames between guests are lost
	loseBatches     bool // batches of more than one frame are lost
	twiceBatches    bool // and arrive twice
	loseLoadedPing  bool // pings are lost while there are such batches
	portCloseError  bool // ports beyond those of the guests fail to close
	closeError      bool // the network fails to close
	opens           int  // more often it does not open
	moves           bool // opened again, it has another subnet
	forgets         bool // opened again, it has given the first address to another guest

	onRequest func(mac []byte) // called for DHCP requests
}

// opener makes broken networks, one after the other.
func opener(f faults) func(context.Context) (network.Network, error) {
	opened := 0
	return func(ctx context.Context) (network.Network, error) {
		opened++
		if err := f.wait(ctx); err != nil {
			return nil, err
		}
		if f.opens > 0 && opened > f.opens {
			return nil, errors.New("no network 2")
		}
		o := usernet.Options{
			Config: gateway.Config{Mode: network.ModeShared, DisableDHCP: f.noDHCP, DisableNAT44: f.noNAT44},
			Start:  gateway.Program{Path: os.Args[0], UID: -1, GID: -1}.Start,
		}
		if f.dhcpEnd != "" {
			o.Gateway, o.DHCPEnd = netip.MustParseAddr("192.168.105.1"), netip.MustParseAddr(f.dhcpEnd)
		}
		if f.mode != "" {
			o.Mode = f.mode
		}
		if f.moves && opened > 1 {
			o.Gateway = netip.MustParseAddr("192.168.106.1")
		}
		if f.forgets && opened > 1 {
			o.Leases = store{}
		}
		n, err := usernet.New(o)
		if err != nil {
			return nil, err
		}
		return &broken{Network: n, faults: f, ports: map[*brokenPort]bool{}}, nil
	}
}

func (f *faults) wait(ctx context.Context) error {
	if f.slow == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(f.slow):
		return nil
	}
}

// store tells of a lease that another guest has.
type store struct{}

func (store) Leases() []state.Lease {
	return []state.Lease{{
		MAC: []byte{2, 0, 0, 0, 0, 1}, IP: netip.MustParseAddr("192.168.105.2"), Expires: time.Now().Add(time.Hour),
	}}
}

func (store) SaveLeases(func() []state.Lease) {}

// broken is the embedded network behind the faults.
type broken struct {
	network.Network
	faults

	pings  atomic.Int64
	loaded atomic.Int64 // when the last large batch was sent

	mu    sync.Mutex
	made  int
	ports map[*brokenPort]bool
}

type brokenPort struct {
	network.Port
	n     *broken
	sink  frame.Sink
	index int     // from 1
	mac   [6]byte // of what it sent last; guarded by n.mu
}

func (n *broken) Info() network.Info {
	i := n.Network.Info()
	switch {
	case n.wrongRange:
		i.DHCPEnd = netip.MustParseAddr("10.0.0.1")
	case n.noKind:
		i.Backend = ""
	case n.hideDHCP:
		i.DHCPStart, i.DHCPEnd = netip.Addr{}, netip.Addr{}
	}
	return i
}

func (n *broken) Attach(ctx context.Context, o network.PortOptions, sink frame.Sink) (network.Port, error) {
	if err := n.wait(ctx); err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.made++
	p := &brokenPort{n: n, sink: sink, index: n.made}
	n.mu.Unlock()
	if n.maxPorts > 0 && p.index > n.maxPorts {
		return nil, errors.New("no more ports")
	}
	var err error
	if p.Port, err = n.Network.Attach(ctx, o, p); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports[p] = true
	return p, nil
}

func (n *broken) Close() error {
	err := n.Network.Close()
	if n.closeError {
		return errors.New("does not close")
	}
	return err
}

// sharing is for Options.Sharing.
func sharing(vn network.Network) (ports int, why error) {
	n := vn.(*broken)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ownPorts == 0 || len(n.ports) <= n.ownPorts {
		return 0, nil
	}
	return len(n.ports) - n.ownPorts, errors.New("limit")
}

func (p *brokenPort) Close() error {
	p.n.mu.Lock()
	delete(p.n.ports, p)
	p.n.mu.Unlock()
	err := p.Port.Close()
	if p.n.portCloseError && p.index > len(names) {
		return errors.New("does not close")
	}
	return err
}

// toGuest tells whether f goes to one guest of the self test.
func toGuest(f []byte) bool { return f[0] == 0x5a && f[1] == 0x32 }

// Send breaks what the guest sends.
func (p *brokenPort) Send(b frame.Batch) {
	n := p.n
	many := b.Len() > 1
	if many {
		n.loaded.Store(time.Now().UnixNano())
		if n.loseBatches {
			return
		}
	}
	for it := b.Iter(); it.Next(); {
		f := bytes.Clone(it.Frame())
		pk, err := fakeguest.Parse(f)
		if err != nil || n.loses(p, &pk, f) {
			continue
		}
		isProbe := pk.DstPort == probePort
		if n.corrupt && isProbe {
			f[len(f)-1] ^= 1
		}
		p.send(f)
		if n.twice && isProbe || n.twiceBatches && many {
			p.send(f)
		}
		p.copies(f, isProbe)
	}
}

func (p *brokenPort) send(f []byte) { p.Port.Send(frame.NewBatch(frame.Append(nil, f), 1)) }

// copies delivers f where it does not belong.
func (p *brokenPort) copies(f []byte, isProbe bool) {
	n := p.n
	n.mu.Lock()
	defer n.mu.Unlock()
	p.mac = [6]byte(f[6:12])
	for q := range n.ports {
		switch {
		case q == p && n.mirrorBroadcast && isProbe && f[0] == 0xff, q == p && n.mirrorUnicast && isProbe && toGuest(f),
			q != p && n.floodUnicast && isProbe && toGuest(f) && q.mac != [6]byte(f[:6]):
			q.sink.Deliver(frame.NewBatch(frame.Append(nil, f), 1))
		}
	}
}

// loses tells whether f from p is lost.
func (n *broken) loses(p *brokenPort, pk *fakeguest.Packet, f []byte) bool {
	gateway := n.Network.Info().Gateway
	isPing := pk.Proto == fakeguest.ProtoICMP && pk.DstIP == gateway
	if isPing {
		n.pings.Add(1)
	}
	if pk.Proto == fakeguest.ProtoUDP && pk.DstPort == dhcpv4.ServerPort && n.onRequest != nil {
		n.onRequest(pk.Src)
	}
	switch {
	case n.noLease && pk.DstPort == dhcpv4.ServerPort,
		n.noARP && pk.ARPOp == fakeguest.ARPRequest && pk.DstIP == gateway,
		n.noPing && isPing,
		n.losePing > 0 && isPing && n.pings.Load()%int64(n.losePing) == 0,
		n.loseUnicast && toGuest(f),
		n.loseBroadcast && pk.DstPort == probePort && f[0] == 0xff,
		n.maxLen > 0 && toGuest(f) && len(f) > n.maxLen,
		n.loseLoadedPing && isPing && p.index == 3 && time.Since(time.Unix(0, n.loaded.Load())) < 5*time.Second:
		return true
	}
	return false
}

// Deliver breaks what the guest gets.
func (p *brokenPort) Deliver(b frame.Batch) {
	n := p.n
	for it := b.Iter(); it.Next(); {
		f := it.Frame()
		switch {
		case n.isolate && toGuest(f[6:]),
			n.deafPort == p.index && f[0] == 0xff && len(f) > 60 && f[12] == 8 && f[13] == 0:
			continue
		case n.sameLease:
			f = sameAddress(f)
		}
		p.sink.Deliver(frame.NewBatch(frame.Append(nil, f), 1))
	}
}

// MaxFrame implements frame.Sink.
func (p *brokenPort) MaxFrame() int { return p.sink.MaxFrame() }

// sameAddress changes the address in an ACK.
func sameAddress(f []byte) []byte {
	m, err := fakeguest.ParseDHCP(f)
	if err != nil || m.MessageType() != dhcpv4.MessageTypeAck {
		return f
	}
	m.YourIPAddr = []byte{192, 168, 105, 2}
	p, _ := fakeguest.Parse(f)
	return fakeguest.EthernetFrame(p.Dst, p.Src, fakeguest.TypeIPv4, fakeguest.UDPPacket(p.From(), p.To(), m.ToBytes()))
}

// nothing is a network that takes no port.
type nothing struct{}

func (nothing) Attach(context.Context, network.PortOptions, frame.Sink) (network.Port, error) {
	return nil, errors.New("no port")
}

func (nothing) Info() network.Info {
	return network.Info{Backend: "nothing", Mode: network.ModeHost, MTU: 1500, MaxFrame: 1514}
}

func (nothing) Close() error { return nil }
