// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Numbers of next headers, in hex digits.
const (
	hop, route, frag, icmp6, noNext, dest, udp6, esp, ah = "00", "2b", "2c", "3a", "3b", "3c", "11", "32", "33"

	ra, redirect, rs, ns, na, echo = "86", "89", "85", "87", "88", "80"

	global  = "2001 0db8 0000 0000 0000 0000 0000 0007"
	globalB = "2001 0db8 0000 0000 0000 0000 0000 0008"
)

// source and target are the options with a link-layer address.
func source(mac string) string { return "01 01" + mac }
func target(mac string) string { return "02 01" + mac }

// TestIPv6: each frame of a client that holds macA and no other address than the one that follows from it.
func TestIPv6(t *testing.T) {
	ping := echo + "00 0000 0001 0001"
	advert := ra + "00 0000 40 00 0708 00000000 00000000"
	pad := "0104 00000000" // an option of 6 bytes that says nothing
	for _, tt := range []struct {
		name  string
		frame []byte
		want  string
	}{
		{"link-local", ipv6(macA, llA, icmp6, ping), ""},
		{"link-local of another", ipv6(macA, llB, icmp6, ping), "spoofed_ipv6"},
		{"global", ipv6(macA, global, icmp6, ping), ""},
		{"nowhere", ipv6(macA, six0, icmp6, ping), "spoofed_ipv6"},
		{"loopback", ipv6(macA, "0000 0000 0000 0000 0000 0000 0000 0001", noNext), "spoofed_ipv6"},
		{"IPv4 in disguise", ipv6(macA, "0000 0000 0000 0000 0000 ffff c0a8 6903", noNext), "spoofed_ipv6"},
		{"group", ipv6(macA, allNode, noNext), "spoofed_ipv6"},
		{"header cut", ipv6(macA, llA, noNext)[:53], "spoofed_malformed"},
		{"of version 4", raw(all, macA, "86dd 40000000 0000 3b ff", llA, allNode), "spoofed_malformed"},
		{"length above the frame", raw(all, macA, "86dd 60000000 0001 3b ff", llA, allNode), "spoofed_malformed"},

		{"router solicitation", ipv6(macA, llA, icmp6, rs+"00 0000 00000000", source(macA)), ""},
		{"router solicitation from nowhere", ipv6(macA, six0, icmp6, rs+"00 0000 00000000"), ""},
		{"router solicitation from nowhere with a MAC", ipv6(macA, six0, icmp6, rs+"00 0000 00000000", source(macA)), "spoofed_nd"},
		{"router advertisement", ipv6(macA, llA, icmp6, advert), "spoofed_nd"},
		{"redirect", ipv6(macA, llA, icmp6, nd(redirect, llB), llB), "spoofed_nd"},
		{"neighbour solicitation", ipv6(macA, llA, icmp6, nd(ns, llB, source(macA))), ""},
		{"neighbour solicitation with another's MAC", ipv6(macA, llA, icmp6, nd(ns, llB, source(macB))), "spoofed_nd"},
		{"duplicate address detection", ipv6(macA, six0, icmp6, nd(ns, llA)), ""},
		{"duplicate address detection of another's", ipv6(macA, six0, icmp6, nd(ns, llB)), "spoofed_nd"},
		{"neighbour advertisement", ipv6(macA, llA, icmp6, nd(na, llA, target(macA))), ""},
		{"neighbour advertisement of another", ipv6(macA, llA, icmp6, nd(na, llB, target(macA))), "spoofed_nd"},
		{"neighbour advertisement with another's MAC", ipv6(macA, llA, icmp6, nd(na, llA, target(macB))), "spoofed_nd"},
		{"neighbour advertisement, hidden MAC", ipv6(macA, llA, icmp6, nd(na, llA, target(macA), target(macB))), "spoofed_nd"},
		{"neighbour advertisement, long MAC", ipv6(macA, llA, icmp6, nd(na, llA, "02 02", macA, "0000000000000000")), "spoofed_nd"},
		{"neighbour advertisement from nowhere", ipv6(macA, six0, icmp6, nd(na, llA)), "spoofed_nd"},
		{"option without a length", ipv6(macA, llA, icmp6, nd(na, llA, "02 00", macB)), "spoofed_malformed"},
		{"option cut", ipv6(macA, llA, icmp6, nd(na, llA, "02 02", macA)), "spoofed_malformed"},
		{"target cut", ipv6(macA, llA, icmp6, na+"00 0000 00000000 fe80"), "spoofed_malformed"},
		{"ICMPv6 cut", ipv6(macA, llA, icmp6, ra), "spoofed_malformed"},
		{"multicast listener", ipv6(macA, six0, hop, icmp6+"00 05020000 0100", "8f00 0000 0000 0000"), ""},
		{"multicast listener from another", ipv6(macA, llB, hop, icmp6+"00 05020000 0100", "8f00 0000 0000 0000"), "spoofed_ipv6"},

		{"advertisement behind hop-by-hop options", ipv6(macA, llA, hop, icmp6+"00", pad, advert), "spoofed_nd"},
		{"behind destination options", ipv6(macA, llA, dest, icmp6+"00", pad, advert), "spoofed_nd"},
		{"behind routing", ipv6(macA, llA, route, icmp6+"00 0000 00000000", advert), "spoofed_nd"},
		{"behind authentication", ipv6(macA, llA, ah, icmp6+"04", strings.Repeat("00", 22), advert), "spoofed_nd"},
		{"behind mobility", ipv6(macA, llA, "87", icmp6+"00 000000000000", advert), "spoofed_nd"},
		{"behind too many", ipv6(macA, llA, dest, strings.Repeat(dest+"00"+pad, maxHeaders), icmp6+"00"+pad, advert), "spoofed_malformed"},
		{"behind options that are cut", ipv6(macA, llA, dest, icmp6+"01", pad), "spoofed_malformed"},
		{"no header", ipv6(macA, llA, dest, icmp6), "spoofed_malformed"},
		{"jumbogram", raw(all, macA, "86dd 60000000 0000 00 ff", llA, allNode, icmp6+"00 c204 00010000", advert), "spoofed_nd"},

		{"first fragment", ipv6(macA, llA, frag, udp6+"00 0001 00000001", udp(1000, 53)), ""},
		{"first fragment of an advertisement", ipv6(macA, llA, frag, icmp6+"00 0001 00000001", advert), "spoofed_nd"},
		{"discovery in one fragment", ipv6(macA, llA, frag, icmp6+"00 0000 00000001", nd(ns, llB)), "spoofed_nd"},
		{"first fragment without its payload", ipv6(macA, llA, frag, dest+"00 0001 00000001", icmp6+"02", pad), "spoofed_malformed"},
		{"further fragment", ipv6(macA, llA, frag, icmp6+"00 0008 00000001", advert), ""},
		{"further fragment of another", ipv6(macA, llB, frag, icmp6+"00 0008 00000001", advert), "spoofed_ipv6"},

		{"UDP", ipv6(macA, llA, udp6, udp(546, 547)), ""},
		{"UDP cut", ipv6(macA, llA, udp6, "0222 0223"), "spoofed_malformed"},
		{"DHCPv6 server", ipv6(macA, llA, udp6, udp(547, 546)), "spoofed_dhcp"},
		{"DHCPv6 server from another port", ipv6(macA, llA, udp6, udp(1000, 546)), "spoofed_dhcp"},
		{"DHCPv6 server behind options", ipv6(macA, llA, dest, udp6+"00", pad, udp(547, 1000)), "spoofed_dhcp"},
		{"encrypted", ipv6(macA, llA, esp, "0000 0001"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.client(t, macA).refused(r, tt.frame, tt.want)
		})
	}
}

// TestIPv6Addresses: the first that uses an address has it, maxIPv6 at most.
func TestIPv6Addresses(t *testing.T) {
	at := func(n int) string { return fmt.Sprintf("2001 0db8 0000 0000 0000 0000 0001 %04x", n) }
	r := newRig(t)
	a, b := r.client(t, macA), r.client(t, macB)
	require.True(t, a.sends(ipv6(macA, six0, icmp6, nd(ns, global))), "by duplicate address detection")
	assert.False(t, b.sends(ipv6(macB, global, noNext)))
	assert.False(t, b.sends(ipv6(macB, six0, icmp6, nd(ns, global))))
	assert.False(t, b.sends(ipv6(macB, llB, icmp6, nd(na, global, target(macB)))))
	assert.False(t, b.sends(ipv6(macB, "2001 0db8 0000 0000 0000 00ff fe00 0001", noNext)), "it follows from macA")
	assert.True(t, b.sends(ipv6(macB, "2001 0db8 0000 0000 0000 00ff fe00 0009", noNext)), "of no client that is there")
	assert.True(t, b.sends(ipv6(macB, globalB, noNext)))

	for n := range maxIPv6 - 1 {
		assert.True(t, a.sends(ipv6(macA, at(n), noNext)), n)
	}
	assert.False(t, a.sends(ipv6(macA, at(100), noNext)), "too many")
	assert.True(t, a.sends(ipv6(macA, llA, noNext)), "its own does not count")
	r.pass(idleIPv6)
	assert.True(t, a.sends(ipv6(macA, global, noNext)))
	assert.True(t, a.sends(ipv6(macA, at(100), noNext)), "in place of one that is not used any more")
	assert.True(t, a.sends(ipv6(macA, global, noNext)), "not of one that is")
	assert.True(t, b.sends(ipv6(macB, at(0), noNext)), "and that is free")
	a.Close()
	assert.True(t, b.sends(ipv6(macB, global, noNext)))
	b.Close()
	assert.Empty(t, r.used)
}
