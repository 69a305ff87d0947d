// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

const (
	// writeSize is how much is written at once, in bytes. A reader that takes none of it in stallTime has stopped.
	writeSize = 32 << 10

	// maxInterfaces bounds the table of those that a file has. Clients beyond it share the first.
	maxInterfaces = 4096

	// maxText is the longest name or description, in bytes.
	maxText = 200
)

// A Description tells a client's name and whatever else is known, for a person.
type Description struct {
	Name string
	Text string
}

// iface is a client in the file.
type iface struct {
	index int
	seen  uint64 // frames, whatever became of them
	lost  uint64
}

// A file writes pcapng. Interface 0 stands for clients that have none of their own.
type file struct {
	w        *pcapgo.NgWriter
	began    time.Time
	snap     uint32
	describe func(id uint64) Description
	clients  map[uint64]*iface
	others   iface
	flags    [2]pcapgo.NgEpbFlags
}

// newFile writes the head of one to out.
func newFile(out io.Writer, began time.Time, o Options, snap int) (*file, error) {
	f := &file{began: began, snap: uint32(snap), describe: o.Describe(), clients: map[uint64]*iface{}}
	// A guest's own network card is the interface: what it sends goes out.
	f.flags[fromClient].Direction = pcapgo.NgEpbFlagDirectionOutbound
	f.flags[toClient].Direction = pcapgo.NgEpbFlagDirectionInbound
	w, err := pcapgo.NewNgWriterInterface(bufio.NewWriterSize(out, writeSize), f.intf(Description{
		Name: "others", Text: "clients without an interface of their own here",
	}), pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{
		Hardware: runtime.GOARCH, OS: runtime.GOOS, Application: clean(o.Application),
	}})
	f.w = w
	return f, err
}

// intf is the form of an interface.
func (f *file) intf(d Description) pcapgo.NgInterface {
	return pcapgo.NgInterface{
		Name: clean(d.Name), Description: clean(d.Text), LinkType: layers.LinkTypeEthernet, SnapLength: f.snap,
	}
}

// clean makes s fit for a file.
func clean(s string) string { return printable.Line(s, maxText) }

// of is the client's interface, which is written when it is first asked for.
func (f *file) of(client uint64) (*iface, error) {
	if c := f.clients[client]; c != nil {
		return c, nil
	}
	if len(f.clients) == maxInterfaces {
		return &f.others, nil
	}
	n, err := f.w.AddInterface(f.intf(f.describe(client)))
	if err != nil {
		return &f.others, err
	}
	c := &iface{index: n}
	f.clients[client] = c
	return c, nil
}

// write writes a frame, cut to the snapshot length.
func (f *file) write(c *iface, r record) error {
	data := r.data[:min(len(r.data), int(f.snap))]
	return f.w.WritePacketWithOptions(gopacket.CaptureInfo{
		Timestamp:      f.began.Add(time.Duration(r.at)),
		CaptureLength:  len(data),
		Length:         r.length,
		InterfaceIndex: c.index,
	}, data, pcapgo.NgPacketOptions{Flags: &f.flags[r.dir]})
}

// finish writes the numbers of each interface that has any.
func (f *file) finish(now time.Time) error {
	all := make([]*iface, 1, len(f.clients)+1)
	all[0] = &f.others
	for _, c := range f.clients {
		all = append(all, c)
	}
	for _, c := range all {
		if c.seen+c.lost == 0 {
			continue
		}
		if err := f.w.WriteInterfaceStats(c.index, pcapgo.NgInterfaceStatistics{
			LastUpdate: now, StartTime: f.began, EndTime: now, PacketsReceived: c.seen + c.lost, PacketsDropped: c.lost,
		}); err != nil {
			return err
		}
	}
	return f.w.Flush()
}

// Types of blocks of pcapng (draft-ietf-opsawg-pcapng).
const (
	typeSection = 0x0a0d0d0a
	typePacket  = 6

	blockHead = 8       // type and length
	blockMin  = 12      // and the length again
	blockMax  = 1 << 20 // the daemon's longest is a frame of 68 KiB
)

// errFormat is that what is read is no pcapng, or not of the daemon's kind.
var errFormat = errors.New("the daemon sends something that is not pcapng")

// Counts are what has been written.
type Counts struct {
	Frames uint64 // whole
	Bytes  int64  // of whole blocks
}

// A WriteError is one of the writer of Copy.
type WriteError struct{ Err error }

func (e *WriteError) Error() string { return e.Err.Error() }
func (e *WriteError) Unwrap() error { return e.Err }

// Copy writes what r has, a daemon's pcapng, to w, whole blocks only, as soon as they are there. When w fails, which is a *WriteError,
// it may have a part of one behind the Counts' Bytes. When r ends within a block, it is io.ErrUnexpectedEOF.
func Copy(w io.Writer, r io.Reader) (c Counts, err error) {
	br := bufio.NewReaderSize(r, blockMax)
	for {
		b, err := block(br, c.Bytes == 0)
		switch {
		case errors.Is(err, io.EOF) && len(b) == 0 && c.Bytes > 0:
			return c, nil
		case errors.Is(err, io.EOF):
			return c, io.ErrUnexpectedEOF
		case err != nil:
			return c, err
		}
		if _, err = w.Write(b); err != nil {
			return c, &WriteError{err}
		}
		if binary.LittleEndian.Uint32(b) == typePacket {
			c.Frames++
		}
		c.Bytes += int64(len(b))
		_, _ = br.Discard(len(b))
	}
}

// block is the next block of r, which begins a section if it is the first one. If r ends it is what is left of one.
func block(r *bufio.Reader, first bool) ([]byte, error) {
	b, err := r.Peek(blockHead)
	if err != nil {
		return b, err
	}
	typ, length := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	switch {
	case first && typ != typeSection:
		return b, fmt.Errorf("%w: it begins with %#x", errFormat, typ)
	case length < blockMin || length > blockMax || length%4 != 0:
		return b, fmt.Errorf("%w: a block of %d bytes", errFormat, length)
	}
	b, err = r.Peek(int(length))
	if err == nil && binary.LittleEndian.Uint32(b[length-4:]) != length {
		err = fmt.Errorf("%w: a block with two lengths", errFormat)
	}
	return b, err
}

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
