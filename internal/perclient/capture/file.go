// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bufio"
	"io"
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
