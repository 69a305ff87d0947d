// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/usernet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// faults break the embedded network, to prove that a step notices. What is nil or 0 breaks nothing.
type faults struct {
	usernet          func(o *usernet.Options, opened int) // how it is made, the first time and the second
	open             func(opened int) error
	info             func(i *network.Info)
	slow             time.Duration // opening and attaching take so long
	ports, own       int           // more ports are refused, more share an interface
	portClose, close error         // of ports beyond those of the guests, and of the network

	send  func(s sent) int                          // how often it passes on what a guest sends
	stray func(s sent, to *brokenPort) bool         // whether it also brings it there
	hear  func(to *brokenPort, frame []byte) []byte // what a guest gets in place of frame; nil: nothing
}

// A sent is a frame that a guest sends.
type sent struct {
	fakeguest.Packet
	frame []byte
	from  *brokenPort
}

func (s sent) probe() bool     { return s.DstPort == probePort }
func (s sent) broadcast() bool { return s.frame[0] == 0xff }
func (s sent) toGuest() bool   { return ofGuest(s.frame) }
func (s sent) toGateway() bool { return s.DstIP == s.from.n.Network.Info().Gateway }
func (s sent) ping() bool      { return s.Proto == fakeguest.ProtoICMP && s.toGateway() }
func (s sent) dhcp() bool      { return s.DstPort == dhcpv4.ServerPort }

// ofGuest tells whether an address is that of a guest of the self test.
func ofGuest(mac []byte) bool { return mac[0] == 0x5a && mac[1] == 0x32 }

// lose loses what is like that, and twice passes it on twice.
func lose(what func(sent) bool) faults  { return faults{send: times(0, what)} }
func twice(what func(sent) bool) faults { return faults{send: times(2, what)} }

func times(n int, what func(sent) bool) func(sent) int {
	return func(s sent) int {
		if what(s) {
			return n
		}
		return 1
	}
}

// deaf has one port, counted from 1, hear no broadcasts of IP.
func deaf(port int) faults {
	return faults{hear: func(to *brokenPort, f []byte) []byte {
		if to.index == port && f[0] == 0xff && len(f) > 60 && f[12] == 8 && f[13] == 0 {
			return nil
		}
		return f
	}}
}

// opener makes broken networks, one after the other.
func opener(f faults) func(context.Context) (network.Network, error) {
	opened := 0
	return func(ctx context.Context) (network.Network, error) {
		opened++
		if err := f.wait(ctx); err != nil {
			return nil, err
		}
		if f.open != nil {
			if err := f.open(opened); err != nil {
				return nil, err
			}
		}
		o := usernet.Options{
			Config: gateway.Config{Mode: network.ModeShared},
			Start:  gateway.Program{Path: os.Args[0], UID: -1, GID: -1}.Start,
		}
		if f.usernet != nil {
			f.usernet(&o, opened)
		}
		n, err := usernet.New(o)
		if err != nil {
			return nil, err
		}
		return &broken{Network: n, faults: f, all: map[*brokenPort]bool{}}, nil
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

	mu   sync.Mutex
	made int
	all  map[*brokenPort]bool
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
	if n.info != nil {
		n.info(&i)
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
	if n.ports > 0 && p.index > n.ports {
		return nil, errors.New("no more ports")
	}
	var err error
	if p.Port, err = n.Network.Attach(ctx, o, p); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all[p] = true
	return p, nil
}

func (n *broken) Close() error {
	return errors.Join(n.Network.Close(), n.close)
}

// sharing is for Options.Sharing.
func sharing(vn network.Network) (ports int, why error) {
	n := vn.(*broken)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.own == 0 || len(n.all) <= n.own {
		return 0, nil
	}
	return len(n.all) - n.own, errors.New("limit")
}

func (p *brokenPort) Close() error {
	p.n.mu.Lock()
	delete(p.n.all, p)
	p.n.mu.Unlock()
	err := p.Port.Close()
	if p.index > len(names) {
		return errors.Join(err, p.n.portClose)
	}
	return err
}

// Send breaks what the guest sends.
func (p *brokenPort) Send(b frame.Batch) {
	for it := b.Iter(); it.Next(); {
		f := bytes.Clone(it.Frame())
		pk, err := fakeguest.Parse(f)
		if err != nil {
			continue
		}
		s, n := sent{pk, f, p}, 1
		if p.n.send != nil {
			n = p.n.send(s)
		}
		for range n {
			p.Port.Send(frame.NewBatch(frame.Append(nil, f), 1))
		}
		if n > 0 {
			p.strays(s)
		}
	}
}

// strays delivers s where it does not belong.
func (p *brokenPort) strays(s sent) {
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	p.mac = [6]byte(s.frame[6:12])
	for q := range p.n.all {
		if p.n.stray != nil && p.n.stray(s, q) {
			q.sink.Deliver(frame.NewBatch(frame.Append(nil, s.frame), 1))
		}
	}
}

// Deliver breaks what the guest gets.
func (p *brokenPort) Deliver(b frame.Batch) {
	for it := b.Iter(); it.Next(); {
		f := it.Frame()
		if p.n.hear != nil {
			f = p.n.hear(p, f)
		}
		if f != nil {
			p.sink.Deliver(frame.NewBatch(frame.Append(nil, f), 1))
		}
	}
}

// MaxFrame implements frame.Sink.
func (p *brokenPort) MaxFrame() int { return p.sink.MaxFrame() }

// sameAddress changes the address in an ACK.
func sameAddress(_ *brokenPort, f []byte) []byte {
	p, _ := fakeguest.Parse(f)
	m, err := p.DHCP()
	if err != nil || m.MessageType() != dhcpv4.MessageTypeAck {
		return f
	}
	m.YourIPAddr = []byte{192, 168, 105, 2}
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
