// SPDX-License-Identifier: Apache-2.0

// Package fakehost is the host's side of a simulated vmnet network: what a guest finds behind it on a Mac. It answers ARP
// and ping for the gateway, leases addresses by DHCP, and echoes UDP on port 7. There is no TCP, no DNS and no way out.
package fakehost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// ErrNoNetwork is wrapped by an IO while its network does not exist. Run waits until it does.
var ErrNoNetwork = errors.New("no such network now")

// An IO is the host's own port on the bridge of a network. One goroutine uses it.
type IO interface {
	// Read takes one frame into buf and returns its length in bytes, 0 when none came within timeout.
	Read(buf []byte, timeout time.Duration) (n int, err error)
	// Write sends one frame, which it borrows.
	Write(frame []byte) error
}

const (
	// DefaultLeaseTime is macOS's.
	DefaultLeaseTime = 24 * time.Hour

	// echoPort is where UDP comes back (RFC 862).
	echoPort = 7
	// maxFrame is the longest frame that any interface of vmnet carries, in bytes: with offload.
	maxFrame = 65550
	// wakeUp is how long one Read waits, and so how late Run notices that it is to end.
	wakeUp = 50 * time.Millisecond
	// absent is how long Run waits before it looks for its network again.
	absent = 5 * time.Millisecond
)

// Options describe a Host.
type Options struct {
	Subnet  netip.Prefix // IPv4
	Gateway netip.Addr   // the host's address
	// DHCPStart and DHCPEnd are the ends of the range, both included; zero = no DHCP server. Of a longer range than
	// maxLeases addresses only the first ones are leased.
	DHCPStart, DHCPEnd netip.Addr
	// Silent, if there is one, is asked before each DHCP message whether it goes unanswered, as on a Mac whose firewall keeps
	// messages from bootpd.
	Silent func() bool
	// Spread makes the address depend on the guest's MAC address, so that it has the same one when the host was started
	// anew: that of a Mac outlives the daemon, with its leases in a file. Otherwise the first free address is given.
	Spread       bool
	MTU          int              // bytes; default 1500. Another one is told to guests by DHCP.
	MAC          net.HardwareAddr // of the host; default: one made from Gateway
	Reservations []vnet.Reservation
	LeaseTime    time.Duration // default DefaultLeaseTime
	Log          *slog.Logger  // default: none
}

// A Host is the other end of a network's bridge. One Run at a time.
type Host struct {
	opts Options
	io   IO // of the Run under way
	dhcp *server
}

// New makes a Host. Run does its work.
func New(o Options) *Host {
	if o.MTU == 0 {
		o.MTU = 1500
	}
	if o.MAC == nil {
		ip := o.Gateway.As4()
		o.MAC = net.HardwareAddr{0x02, 'f', ip[0], ip[1], ip[2], ip[3]}
	}
	if o.LeaseTime == 0 {
		o.LeaseTime = DefaultLeaseTime
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &Host{opts: o}
	if o.DHCPStart.IsValid() {
		h.dhcp = newServer(&h.opts)
	}
	return h
}

// MAC is the host's address on the network.
func (h *Host) MAC() net.HardwareAddr { return h.opts.MAC }

// Run answers what comes over io until ctx is done, then it returns nil. While io has no network it waits. Another error
// of Read ends it; one of Write costs that frame. Leases are kept for the next Run.
func (h *Host) Run(ctx context.Context, io IO) error {
	h.io = io
	buf := make([]byte, maxFrame)
	for ctx.Err() == nil {
		n, err := io.Read(buf, wakeUp)
		switch {
		case errors.Is(err, ErrNoNetwork):
			select {
			case <-ctx.Done():
			case <-time.After(absent):
			}
		case err != nil:
			return fmt.Errorf("read from the network: %w", err)
		case n > 0 && n <= len(buf):
			h.handle(buf[:n])
		}
	}
	return nil
}

// handle answers one frame, whatever it holds.
func (h *Host) handle(f []byte) {
	if len(f) > h.opts.MTU+14 {
		return
	}
	p, err := fakeguest.Parse(f)
	if err != nil || p.Src[0]&1 != 0 || bytes.Equal(p.Src, h.opts.MAC) {
		return
	}
	toUs := bytes.Equal(p.Dst, h.opts.MAC)
	switch {
	case !toUs && p.Dst[0]&1 == 0:
	case p.ARPOp == fakeguest.ARPRequest:
		h.answerARP(&p)
	case p.Proto == fakeguest.ProtoUDP && p.DstPort == 67 && h.dhcp != nil:
		h.answerDHCP(&p)
	case !toUs || p.DstIP != h.opts.Gateway || !h.isGuest(p.SrcIP):
	case p.Proto == fakeguest.ProtoICMP && p.ICMPType == fakeguest.EchoRequest && p.ICMPCode == 0:
		h.reply(&p, fakeguest.IPv4Packet(p.DstIP, p.SrcIP, fakeguest.ProtoICMP,
			fakeguest.ICMPMessage(fakeguest.EchoReply, p.EchoID, p.EchoSeq, p.Data)))
	case p.Proto == fakeguest.ProtoUDP && p.DstPort == echoPort && p.SrcPort != echoPort && p.SrcPort != 0:
		h.reply(&p, fakeguest.UDPPacket(p.To(), p.From(), p.Data))
	}
}

// isGuest tells whether an answer may go to ip: a host of the subnet that is neither us nor all of them.
func (h *Host) isGuest(ip netip.Addr) bool {
	return h.opts.Subnet.Contains(ip) && ip != h.opts.Gateway && ip != h.opts.Subnet.Masked().Addr() && ip != broadcastOf(h.opts.Subnet)
}

// broadcastOf is the last address of an IPv4 subnet.
func broadcastOf(subnet netip.Prefix) netip.Addr {
	b := subnet.Masked().Addr().As4()
	mask := net.CIDRMask(subnet.Bits(), 32)
	for i := range b {
		b[i] |= ^mask[i]
	}
	return netip.AddrFrom4(b)
}

func (h *Host) answerARP(p *fakeguest.Packet) {
	if p.DstIP != h.opts.Gateway || p.SrcIP == h.opts.Gateway || !bytes.Equal(p.SenderMAC, p.Src) {
		return
	}
	h.send(fakeguest.EthernetFrame(p.Src, h.opts.MAC, fakeguest.TypeARP,
		fakeguest.ARPPacket(fakeguest.ARPReply, h.opts.MAC, h.opts.Gateway, p.SenderMAC, p.SrcIP)))
}

// reply sends an IPv4 packet to where p came from.
func (h *Host) reply(p *fakeguest.Packet, packet []byte) {
	h.send(fakeguest.EthernetFrame(p.Src, h.opts.MAC, fakeguest.TypeIPv4, packet))
}

func (h *Host) send(f []byte) {
	if err := h.io.Write(f); err != nil && !errors.Is(err, ErrNoNetwork) {
		h.opts.Log.Debug("the network did not take a frame", "bytes", len(f), "error", err)
	}
}
