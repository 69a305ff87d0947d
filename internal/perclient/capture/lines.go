// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
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
		return c, fmt.Errorf("%w: %w", errFormat, err)
	}
	out := bufio.NewWriter(w)
	for {
		data, ci, opts, err := pr.ReadPacketDataWithOptions()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return c, err
		}
		n, err := pr.Interface(ci.InterfaceIndex)
		if err != nil {
			return c, fmt.Errorf("%w: %w", errFormat, err)
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
	return fmt.Sprintf("%s %s %s %s, length %d\n", ci.Timestamp.In(zone).Format(lineTime), name, way, describe(data), ci.Length)
}

// describe tells what is in a frame, which may be cut: addresses, protocols, ports, and in ARP the two hosts. tcpdump tells the rest.
// Whatever the bytes are, the text is printable.
func describe(data []byte) string {
	if len(data) < 14 {
		return fmt.Sprintf("%x", data)
	}
	text := fmt.Sprintf("%v > %v", net.HardwareAddr(data[6:12]), net.HardwareAddr(data[:6]))
	p := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.DecodeOptions{NoCopy: true})
	if len(p.Layers()) < 2 || p.Layers()[1].LayerType() == gopacket.LayerTypeDecodeFailure || p.Layers()[1].LayerType() == gopacket.LayerTypePayload {
		return fmt.Sprintf("%s ethertype %#04x", text, uint16(data[12])<<8|uint16(data[13]))
	}
	for _, l := range p.Layers()[1:] {
		switch t := l.LayerType(); t {
		case gopacket.LayerTypePayload, gopacket.LayerTypeFragment, gopacket.LayerTypeDecodeFailure:
		default:
			text += " " + t.String()
		}
	}
	if a, ok := p.Layer(layers.LayerTypeARP).(*layers.ARP); ok {
		return fmt.Sprintf("%s %v to %v", text, net.IP(a.SourceProtAddress), net.IP(a.DstProtAddress))
	}
	n, t := p.NetworkLayer(), p.TransportLayer()
	switch {
	case n == nil || len(n.LayerContents()) == 0: // it is cut
	case t != nil:
		from, to := n.NetworkFlow().Endpoints()
		fromPort, toPort := t.TransportFlow().Endpoints()
		text += " " + net.JoinHostPort(from.String(), fromPort.String()) + " > " + net.JoinHostPort(to.String(), toPort.String())
	default:
		text += fmt.Sprintf(" %v > %v", n.NetworkFlow().Src(), n.NetworkFlow().Dst())
	}
	return text
}
