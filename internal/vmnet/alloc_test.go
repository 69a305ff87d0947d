// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"bytes"
	"context"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/pkt"
)

// A still is an interface that allocates nothing: it takes all packets, and brings as many as it is told.
type still struct {
	*fakeInterface
	packet []byte
	left   int // reads that bring packets
	wrote  int
}

func (s *still) Read(r *pkt.Reader) api.Status {
	p, count := r.Args()
	d := unsafe.Slice((*desc)(p), int(*count))
	if s.left == 0 {
		*count = 0
		return api.Success
	}
	s.left--
	for i := range d {
		d[i].size = uint64(copy(unsafe.Slice((*byte)(d[i].iov.base), d[i].iov.size), s.packet))
	}
	return api.Success
}

func (s *still) Write(w *pkt.Writer) api.Status {
	s.wrote += w.Len()
	return api.Success
}

// counting is a sink that counts.
type counting struct{ frames int }

func (c *counting) Deliver(b frame.Batch) { c.frames += b.Len() }

func (*counting) MaxFrame() int { return 1514 }

// TestNoAllocation: neither way allocates, by an own interface or by the anchor.
func TestNoAllocation(t *testing.T) {
	for _, way := range []string{InterfacesClient, InterfacesOne} {
		r := newRig(t, newFake(), with(home(), func(o *Options) { o.Interfaces = way }))
		sink := &counting{}
		a := r.attach(1)
		p, err := r.Attach(context.Background(), vnetOptions("b"), sink)
		require.NoError(t, err)
		s := &still{fakeInterface: r.fake.running()[0], packet: bytes.Repeat([]byte{0xff}, 1514)}
		d := newDevice(r.Network, "test", s)
		var buf []byte
		for range 32 {
			buf = frame.Append(buf, a.to(everybody, long(1, 1514)))
		}
		send := func() { p.Send(frame.NewBatch(buf, 32)) }

		deliver := func(b frame.Batch) { p.(*port).deliver(b, d.maxPacket) }
		if l := p.(*port).line.Load(); l.dev != nil {
			l.dev.ifc = s
		} else {
			r.hub.dev.ifc, deliver = s, r.hub.up.Send
			sharing := r.attach(2) // its sink is counted by nobody
			sharing.hook = func(frame.Batch) {}
			require.NoError(t, sharing.Close())
			require.NoError(t, a.Close()) // its sink allocates
		}
		assert.Zero(t, testing.AllocsPerRun(100, send), "Send, %s", way)
		assert.EqualValues(t, 32*101, s.wrote)
		rd, err := newReader(d, deliver, func(int) {})
		require.NoError(t, err)
		rounds := 0
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			s.left = 3
			rounds++
			rd.drain()
		}), "reading, %s", way)
		assert.Equal(t, 3*rounds*rd.mem.Cap(), sink.frames)
		rd.halt()
		require.NoError(t, r.Close())
	}
}
