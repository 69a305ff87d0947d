// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/pkt"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// A still is an interface that allocates nothing: it takes all packets, and brings as many as it is told.
type still struct {
	*fakeInterface
	packet []byte
	left   int // reads that bring packets
	wrote  atomic.Int64
}

func (s *still) Read(r *pkt.Reader) api.Status {
	r.Reset()
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
	s.wrote.Add(int64(w.Len()))
	return api.Success
}

// counting is a sink that counts.
type counting struct{ frames int }

func (c *counting) Deliver(b frame.Batch) { c.frames += b.Len() }

func (*counting) MaxFrame() int { return 1514 }

// TestNoAllocation: neither way allocates, by an own interface or by the anchor.
func TestNoAllocation(t *testing.T) {
	for _, way := range []string{InterfacesClient, InterfacesOne} {
		f := newFake()
		var last *still
		f.wrap = func(i *fakeInterface) api.Interface {
			last = &still{fakeInterface: i}
			return last
		}
		r := newRig(t, f, with(onNetwork(), func(o *Options) { o.Interfaces = way }))
		sink := &counting{}
		p, err := r.Attach(context.Background(), vnet.PortOptions{Name: "a"}, sink)
		require.NoError(t, err)
		g := &guest{r: r, mac: guestMAC(1)}
		var buf []byte
		for range 32 {
			buf = frame.Append(buf, g.to(everybody, long(1, 1514)))
		}
		assert.Zero(t, testing.AllocsPerRun(100, func() { p.Send(frame.NewBatch(buf, 32)) }), "Send, %s", way)
		assert.Equal(t, int64(32*101), last.wrote.Load())

		s := &still{fakeInterface: last.fakeInterface, packet: bytes.Repeat([]byte{0xff}, 1514)}
		deliver := func(b frame.Batch) { p.(*port).deliver(b, 1514) }
		if way == InterfacesOne {
			deliver = r.hub.up.Send
		}
		rd, err := newReader(newDevice(r.Network, "test", s), deliver, func(int) {})
		require.NoError(t, err)
		rounds := 0
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			s.left = 3
			rounds++
			rd.drain()
		}), "reading, %s", way)
		assert.Equal(t, 3*rounds*rd.mem.Cap(), sink.frames)
		rd.halt()
		r.end()
	}
}
