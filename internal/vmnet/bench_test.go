// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// BenchmarkPort is the port's own cost, with a framework that costs nothing: a batch from a client, and one read for it.
func BenchmarkPort(b *testing.B) {
	for _, way := range []string{InterfacesClient, InterfacesOne} {
		for _, n := range []int{1, 32, 128} {
			b.Run(fmt.Sprintf("send/%s/%d", way, n), func(b *testing.B) { benchSend(b, way, n) })
		}
	}
	for _, n := range []int{1, 32, 128} {
		b.Run(fmt.Sprintf("read/%d", n), func(b *testing.B) { benchRead(b, n) })
	}
}

// benchNetwork is a network whose interfaces are still, with one client.
func benchNetwork(b *testing.B, way string, packets int) (*Network, *port, *still) {
	b.Helper()
	f := newFake()
	var last *still
	f.wrap = func(i *fakeInterface) api.Interface {
		last = &still{fakeInterface: i}
		return last
	}
	f.tune = func(p *api.Params) { p.ReadMax = packets }
	n, err := New(context.Background(), with(onNetwork(), func(o *Options) { o.API, o.Interfaces = f, way }))
	require.NoError(b, err)
	b.Cleanup(func() { _ = n.Close() })
	p, err := n.Attach(context.Background(), vnet.PortOptions{Name: "a"}, &counting{})
	require.NoError(b, err)
	return n, p.(*port), last
}

func benchSend(b *testing.B, way string, n int) {
	_, p, _ := benchNetwork(b, way, n)
	var buf []byte
	for range n {
		buf = frame.Append(buf, bytes.Repeat([]byte{0xfe}, 1514))
	}
	b.ReportAllocs()
	for b.Loop() {
		p.Send(frame.NewBatch(buf, n))
	}
}

func benchRead(b *testing.B, n int) {
	net, p, s := benchNetwork(b, InterfacesClient, n)
	quiet := &still{fakeInterface: s.fakeInterface, packet: bytes.Repeat([]byte{0xff}, 1514)}
	l := p.line.Load()
	rd, err := newReader(newDevice(net, "bench", quiet), func(f frame.Batch) { p.deliverFrom(l, f, 1514) }, func(int) {})
	require.NoError(b, err)
	defer rd.halt()
	b.ReportAllocs()
	for b.Loop() {
		quiet.left = 1
		rd.drain()
	}
}
