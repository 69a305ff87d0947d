// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// BenchmarkAlias moves bytes between a guest and the host's loopback. The guest is a second stack in this process, so a
// real one leaves more of the processor to the gateway.
func BenchmarkAlias(b *testing.B) {
	for _, dir := range []string{"GuestToHost", "HostToGuest"} {
		b.Run(dir, func(b *testing.B) {
			n := start(b, Options{}, tuning{})
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			require.NoError(b, err)
			defer l.Close()
			g := newIPGuest(b, n, mac1, guestIP)
			accepted := make(chan net.Conn, 1)
			go func() { c, _ := l.Accept(); accepted <- c }()
			c, err := g.dialTCP(context.Background(), netip.AddrPortFrom(aliasIP, hostPort(l)))
			require.NoError(b, err)
			h := <-accepted
			var from io.ReadWriteCloser = c
			var to io.ReadWriteCloser = h
			if dir == "HostToGuest" {
				from, to = h, c
			}
			const size = 1 << 20
			b.SetBytes(size)
			b.ResetTimer()
			go func() {
				buf := make([]byte, size)
				for range b.N {
					if _, err := from.Write(buf); err != nil {
						return
					}
				}
			}()
			_, err = io.CopyN(io.Discard, to, int64(b.N)*size)
			require.NoError(b, err)
			b.StopTimer()
			c.Close()
			h.Close()
		})
	}
}

// BenchmarkNew is the time to start and stop a network.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		n, err := New(Options{Mode: vnet.ModeShared})
		require.NoError(b, err)
		require.NoError(b, n.Close())
	}
}
