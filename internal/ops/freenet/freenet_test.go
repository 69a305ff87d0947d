// SPDX-License-Identifier: Apache-2.0

package freenet

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// list reads "en0 192.168.1.7/24", or "utun4 10.0.0.0/8".
func list(lines ...string) (l []Conflict) {
	for _, line := range lines {
		i := strings.LastIndexByte(line, ' ')
		l = append(l, Conflict{line[:i], netip.MustParsePrefix(line[i+1:])})
	}
	return l
}

func TestChoose(t *testing.T) {
	everything := []string{"utun4 10.0.0.0/8", "utun4 172.16.0.0/12", "utun4 192.168.0.0/16"}
	tests := []struct {
		name       string
		interfaces []string
		routes     []string
		bits       int
		taken      []string
		want       string // prefix, or part of the error
	}{
		{"nothing there", nil, nil, 24, nil, "192.168.107.0/24"},
		{"an interface in it", []string{"bridge100 192.168.107.1/24"}, nil, 24, nil, "192.168.108.0/24"},
		{"a route to it", nil, []string{"utun3 192.168.107.0/24"}, 24, nil, "192.168.108.0/24"},
		{"one address of it", []string{"utun3 192.168.107.9/32"}, nil, 24, nil, "192.168.108.0/24"},
		{"more than it", nil, []string{"utun3 192.168.96.0/20"}, 24, nil, "192.168.112.0/24"},
		{"another one's", nil, nil, 24, []string{"192.168.107.0/24", "192.168.108.0/24"}, "192.168.109.0/24"},
		{"larger than asked for is taken", nil, nil, 24, []string{"192.168.107.0/25"}, "192.168.108.0/24"},
		{"up to the reserved ones", nil, []string{"utun3 192.168.107.0/24", "utun3 192.168.108.0/22", "utun3 192.168.112.0/21", "utun3 192.168.120.0/23"}, 24, nil, "192.168.123.0/24"},
		{"begins anew below", nil, []string{"utun3 192.168.107.0/24", "utun3 192.168.108.0/22", "utun3 192.168.112.0/20", "utun3 192.168.128.0/17"}, 24, nil, "192.168.3.0/24"},
		{"all of 192.168", nil, []string{"utun3 192.168.0.0/16"}, 24, nil, "10.112.0.0/24"},
		{"192.168 and 10", nil, []string{everything[2], everything[0]}, 24, nil, "172.27.0.0/24"},
		{"a VPN for everything", nil, []string{"utun3 0.0.0.0/0", "utun3 0.0.0.0/1", "utun3 128.0.0.0/1", "utun3 192.0.0.0/4"}, 24, nil, "192.168.107.0/24"},
		{"small", []string{"en5 192.168.107.0/30"}, nil, 28, nil, "192.168.107.16/28"},
		{"large", nil, nil, 20, nil, "192.168.128.0/20"},
		{"too large for 192.168", nil, nil, 14, nil, "10.112.0.0/14"},
		{"IPv6 is something else", []string{"en0 2001:db8::1/64"}, []string{"en0 fe80::/10"}, 24, nil, "192.168.107.0/24"},
		{"none", nil, everything, 24, nil, "no private network with a prefix of 24 bits is free: in the way are utun4 10.0.0.0/8, utun4 172.16.0.0/12, utun4 192.168.0.0/16"},
		{"the whole block is never free", nil, nil, 8, nil, "in the way are"},
		{"smaller than any", nil, nil, 31, nil, "192.168.107.0/30"},
		{"larger than any", nil, nil, 7, nil, "8 bits"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var taken []netip.Prefix
			for _, p := range tt.taken {
				taken = append(taken, netip.MustParsePrefix(p))
			}
			got, err := NewTable(list(tt.interfaces...), list(tt.routes...)).Choose(tt.bits, taken...)
			if err != nil {
				assert.ErrorContains(t, err, tt.want)
				return
			}
			assert.Equal(t, tt.want, got.String())
		})
	}
}

// TestChooseManyRoutes: a host with the Internet's routing table gets an answer, too, and of many in the way those that take most are named.
func TestChooseManyRoutes(t *testing.T) {
	var routes []Conflict
	for i := range 200_000 {
		routes = append(routes, Conflict{"eth0", netip.PrefixFrom(fromUint(0x0b00_0000+uint32(i)<<8), 24)})
	}
	for i := range 256 {
		routes = append(routes, Conflict{"en7", netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, byte(i), 0}), 24)})
	}
	got, err := NewTable(nil, routes).Choose(24)
	require.NoError(t, err)
	assert.Equal(t, "10.112.0.0/24", got.String(), "11.0.0.0 to 14.13.64.0 are no private ones")
	_, err = NewTable(nil, append(routes, list("utun4 10.0.0.0/8", "utun5 172.16.0.0/12")...)).Choose(24)
	assert.ErrorContains(t, err, "in the way are utun4 10.0.0.0/8, utun5 172.16.0.0/12, ")
	assert.Less(t, len(err.Error()), 600)
}

func TestOverlaps(t *testing.T) {
	table := NewTable(
		list("lo0 127.0.0.1/8", "en0 192.168.105.3/24", "utun4 10.8.0.2/32"),
		list("default 0.0.0.0/0", "a route by en0 192.168.105.0/24", "a route by en0 192.168.105.77/32", "a route by utun4 10.8.0.0/24", "a route by utun4 10.8.0.0/24"),
	)
	for _, tt := range []struct {
		prefix string
		want   []string
	}{
		{"192.168.105.0/24", []string{"en0 192.168.105.3/24"}},
		{"192.168.0.0/16", []string{"en0 192.168.105.3/24"}},
		{"192.168.105.64/30", []string{"en0 192.168.105.3/24"}},
		{"10.8.0.0/30", []string{"utun4 10.8.0.2/32", "a route by utun4 10.8.0.0/24"}},
		{"192.168.106.0/24", nil},
		{"192.168.64.0/24", nil}, // reserved, which is for Choose only
	} {
		var got []string
		for _, c := range table.Overlaps(netip.MustParsePrefix(tt.prefix)) {
			got = append(got, c.String())
		}
		assert.Equal(t, tt.want, got, tt.prefix)
	}
}

// TestSystem: every IPv4 address of this machine is found, and what is chosen overlaps none.
func TestSystem(t *testing.T) {
	var table *Table
	var addrs []net.Addr
	require.Eventually(t, func() bool { // other tests may make interfaces meanwhile
		before, err := net.InterfaceAddrs()
		if err != nil {
			return false
		}
		if table, err = System(); err != nil {
			t.Log(err)
			return false
		}
		addrs, err = net.InterfaceAddrs()
		return err == nil && fmt.Sprint(before) == fmt.Sprint(addrs)
	}, 20*time.Second, time.Millisecond)
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			ones, _ := n.Mask.Size()
			p := netip.PrefixFrom(netip.MustParseAddr(n.IP.String()), ones)
			assert.NotEmpty(t, table.Overlaps(p), p.String())
		}
	}
	got, err := table.Choose(24)
	require.NoError(t, err)
	assert.Empty(t, table.Overlaps(got))
}
