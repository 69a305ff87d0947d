// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// lineTime is how times are shown.
const lineTime = "15:04:05.000000"

// Lines writes a line for each frame of r to w, as soon as it is there, with times in that zone.
func Lines(w io.Writer, r io.Reader, zone *time.Location) (c Counts, err error) {
	pr, err := pcapgo.NewNgReader(r, pcapgo.NgReaderOptions{WantMixedLinkType: true})
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	out := bufio.NewWriter(w)
	for {
		data, ci, opts, err := pr.ReadPacketDataWithOptions()
		if err != nil {
			for i := range pr.NInterfaces() {
				if n, ierr := pr.Interface(i); ierr == nil && n.Statistics.PacketsDropped != pcapgo.NgNoValue64 {
					c.Dropped += n.Statistics.PacketsDropped
				}
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return c, err
		}
		n, err := pr.Interface(ci.InterfaceIndex)
		if err != nil {
			return c, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		c.Frames++
		_, _ = out.WriteString(line(ci, n.Name, opts.Flags, data, zone))
		if err := out.Flush(); err != nil {
			return c, &WriteError{err}
		}
	}
}

// line describes a frame: when, whose and which way, and as much of what is in it as helps to see what goes on.
func line(ci gopacket.CaptureInfo, name string, flags *pcapgo.NgEpbFlags, data []byte, zone *time.Location) string {
	way := "?"
	if flags != nil {
		switch flags.Direction {
		case pcapgo.NgEpbFlagDirectionOutbound:
			way = "out"
		case pcapgo.NgEpbFlagDirectionInbound:
			way = "in "
		}
	}
	return fmt.Sprintf("%s %s %s %s, length %d\n", ci.Timestamp.In(zone).Format(lineTime), name, way, Describe(data), ci.Length)
}

// Describe tells what is in a frame, which may be cut. Whatever the bytes are, the text is printable.
func Describe(data []byte) (text string) {
	if len(data) < 14 {
		return fmt.Sprintf("%x", data)
	}
	head := fmt.Sprintf("%v > %v ", net.HardwareAddr(data[6:12]), net.HardwareAddr(data[:6]))
	defer func() { // the library reads what strangers send
		if r := recover(); r != nil {
			text = head + "unreadable"
		}
	}()
	p := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
	return head + describe(p, data)
}

func describe(p gopacket.Packet, data []byte) string {
	var tag string
	if v, ok := p.Layer(layers.LayerTypeDot1Q).(*layers.Dot1Q); ok {
		tag = fmt.Sprintf("vlan %d ", v.VLANIdentifier)
	}
	if a, ok := p.Layer(layers.LayerTypeARP).(*layers.ARP); ok {
		return tag + arp(a)
	}
	var src, dst netip.Addr
	var proto string
	switch n := p.NetworkLayer().(type) {
	case *layers.IPv4:
		src, _ = netip.AddrFromSlice(n.SrcIP)
		dst, _ = netip.AddrFromSlice(n.DstIP)
		proto = "IPv4 " + n.Protocol.String()
		if n.FragOffset != 0 {
			return fmt.Sprintf("%s%s %v > %v fragment", tag, proto, src, dst)
		}
	case *layers.IPv6:
		src, _ = netip.AddrFromSlice(n.SrcIP)
		dst, _ = netip.AddrFromSlice(n.DstIP)
		proto = "IPv6 " + n.NextHeader.String()
	}
	if !src.IsValid() || !dst.IsValid() { // not IP, or not enough of it
		return fmt.Sprintf("%sethertype %#04x", tag, uint16(data[12])<<8|uint16(data[13]))
	}
	return tag + transport(p, proto, src, dst)
}

// transport describes what is in a packet between these addresses.
func transport(p gopacket.Packet, proto string, src, dst netip.Addr) string {
	between := func(a, b uint16) string {
		return fmt.Sprintf("%v > %v", netip.AddrPortFrom(src, a), netip.AddrPortFrom(dst, b))
	}
	switch t := p.TransportLayer().(type) {
	case *layers.TCP:
		return fmt.Sprintf("%s %s [%s]", proto, between(uint16(t.SrcPort), uint16(t.DstPort)), tcpFlags(t))
	case *layers.UDP:
		text := fmt.Sprintf("%s %s", proto, between(uint16(t.SrcPort), uint16(t.DstPort)))
		if d, ok := p.Layer(layers.LayerTypeDHCPv4).(*layers.DHCPv4); ok {
			text += dhcp(d)
		}
		return text
	}
	text := fmt.Sprintf("%s %v > %v", proto, src, dst)
	if i, ok := p.Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4); ok {
		text += " " + i.TypeCode.String()
	} else if i, ok := p.Layer(layers.LayerTypeICMPv6).(*layers.ICMPv6); ok {
		text += " " + i.TypeCode.String()
	}
	return text
}

func arp(a *layers.ARP) string {
	src, _ := netip.AddrFromSlice(a.SourceProtAddress)
	dst, _ := netip.AddrFromSlice(a.DstProtAddress)
	switch {
	case !src.IsValid() || !dst.IsValid():
		return "ARP"
	case a.Operation == layers.ARPRequest:
		return fmt.Sprintf("ARP who has %v, tell %v", dst, src)
	case a.Operation == layers.ARPReply:
		return fmt.Sprintf("ARP %v is at %v", src, net.HardwareAddr(a.SourceHwAddress))
	}
	return fmt.Sprintf("ARP operation %d", a.Operation)
}

// dhcp is the message's type, and the address that it gives.
func dhcp(d *layers.DHCPv4) string {
	kind := ""
	for _, o := range d.Options {
		if o.Type == layers.DHCPOptMessageType && len(o.Data) == 1 {
			kind = " " + strings.ToLower(layers.DHCPMsgType(o.Data[0]).String())
		}
	}
	if ip, ok := netip.AddrFromSlice(d.YourClientIP); ok && !ip.IsUnspecified() {
		return " DHCP" + kind + " " + ip.String()
	}
	return " DHCP" + kind
}

// tcpFlags are letters, as tcpdump has them.
func tcpFlags(t *layers.TCP) string {
	var b strings.Builder
	for _, f := range []struct {
		set  bool
		name string
	}{{t.SYN, "S"}, {t.FIN, "F"}, {t.RST, "R"}, {t.PSH, "P"}, {t.URG, "U"}, {t.ACK, "."}} {
		if f.set {
			b.WriteString(f.name)
		}
	}
	return b.String()
}
