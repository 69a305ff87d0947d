// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"encoding/binary"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
)

// FuzzFilter sends any frames from a forger and shows it any frames. What passes carries its own addresses, read here in the
// plainest way, and the addresses of its victim stay the victim's.
func FuzzFilter(f *testing.F) {
	for _, in := range [][]byte{
		says(macB, ipB), says(macB, ipA), arp(macB, "0001", macB, ipB, ipA), arp(macB, "0002", macB, ipA, ipGW),
		toServer(macB, ip0, "01"), toServer(macB, ip0, "03"), toServer(macB, ipB, "07"),
		fromServer(macB, ipB, "05", hour), fromServer(macA, ipA, "05", hour), fromServer(macB, ip0, "06"),
		ipv6(macB, llB, icmp6, nd(na, llB, target(macB))), ipv6(macB, six0, icmp6, nd(ns, global)),
		ipv6(macB, llB, frag, icmp6+"00 0001 00000001", nd(ns, llA)), ipv6(macB, llB, hop, icmp6+"00 05020000 0100", "8f00 0000 0000 0000"),
		raw(all, macB, "8100 0000 0800"), raw(all, macB, "0020 aaaa03 000000 0806"), raw(all, macB),
	} {
		f.Add(in, fromServer(macB, ipB, "05", hour), in)
	}
	// Made once, because that takes longer than looking at them.
	asks, ack, uses := toServer(macA, ip0, "03"), fromServer(macA, ipA, "05", hour), says(macA, ipA)
	detects, usesSix := ipv6(macA, six0, icmp6, nd(ns, global)), ipv6(macA, global, noNext)
	f.Fuzz(func(t *testing.T, first, shown, second []byte) {
		r := newRig(t)
		victim := r.client(t, macA)
		require.True(t, victim.sends(asks))
		victim.gets(ack)
		require.True(t, victim.sends(detects))
		g := r.Guard(hardware(macB), slog.New(slog.DiscardHandler), nil)
		var wire []byte
		n := 0
		for _, in := range [][]byte{first, second} {
			if len(in) >= frame.MinLen && len(in) <= frame.MaxLen {
				wire = frame.Append(wire, in)
				n++
			}
		}
		for range 2 {
			g.Filter(frame.NewBatch(wire, n), func(b frame.Batch) {
				for it := b.Iter(); it.Next(); {
					requireHonest(t, it.Frame())
				}
			})
			if len(shown) >= frame.MinLen && len(shown) <= frame.MaxLen {
				g.ToClient(frame.NewBatch(frame.Append(nil, shown), 1))
			}
		}
		if l := r.leases[watch.MACOf(hardware(macB))]; l == nil || digits(l.ip.AsSlice()) != ipA { // the server may give it to another
			require.True(t, victim.sends(uses))
		}
		require.True(t, victim.sends(usesSix))
		require.Equal(t, g.Save(), newRig(t).Guard(nil, nil, g.Save()).Save())
		g.Close()
		victim.Close()
		require.Empty(t, r.macs)
		require.Empty(t, r.used)
	})
}

// requireHonest fails if f, which a client with macB sent, carries what is the victim's or the gateway's.
func requireHonest(t *testing.T, f []byte) {
	t.Helper()
	require.Equal(t, macB, digits(f[6:12]))
	p := f[14:]
	bad := []string{ipA, ipGW, ipHost}
	switch binary.BigEndian.Uint16(f[12:]) {
	case 0x0800:
		require.GreaterOrEqual(t, len(p), 20)
		require.NotContains(t, bad, digits(p[12:16]))
		at := int(p[0]&15) * 4
		if p[9] == 17 && binary.BigEndian.Uint16(p[6:])&0x1fff == 0 {
			require.NotEqual(t, []byte{0, 67}, p[at:at+2])
			require.NotEqual(t, []byte{0, 68}, p[at+2:at+4])
		}
	case 0x0806:
		require.GreaterOrEqual(t, len(p), 28)
		require.Equal(t, macB, digits(p[8:14]))
		require.NotContains(t, bad, digits(p[14:18]))
	case 0x86dd:
		require.GreaterOrEqual(t, len(p), 40)
		src := digits(p[8:24])
		require.NotEqual(t, digits(raw(llA)), src)
		require.NotEqual(t, digits(raw(global)), src)
		if p[6] == 58 && len(p) > 40 {
			require.NotContains(t, []byte{134, 137}, p[40])
		}
	case 0x8100, 0x88a8:
		require.Fail(t, "a tag")
	}
}
