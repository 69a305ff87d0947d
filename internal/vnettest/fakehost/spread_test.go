// SPDX-License-Identifier: Apache-2.0

package fakehost

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestSpread: each guest has its address from any server that starts anew, in whatever order they come, and all addresses
// are given before one is refused.
func TestSpread(t *testing.T) {
	options := &Options{
		Subnet: netip.MustParsePrefix("192.168.64.0/28"), Gateway: netip.MustParseAddr("192.168.64.1"), Spread: true,
		DHCPStart: netip.MustParseAddr("192.168.64.2"), DHCPEnd: netip.MustParseAddr("192.168.64.14"),
	}
	a, b := mac48{2, 0, 0, 0, 0, 1}, mac48{2, 0, 0, 0, 0, 9}
	give := func(s *server, m mac48) netip.Addr {
		ip := s.find(m, netip.Addr{})
		s.bind(m, ip, DefaultLeaseTime)
		return ip
	}
	one, two := newServer(options), newServer(options)
	ofA, ofB := give(one, a), give(one, b)
	assert.NotEqual(t, ofA, ofB)
	assert.Equal(t, ofB, give(two, b))
	assert.Equal(t, ofA, give(two, a))

	given := map[netip.Addr]bool{}
	s := newServer(options)
	for i := range 13 {
		given[give(s, mac48{2, 1, 0, 0, 0, byte(i)})] = true
	}
	assert.Len(t, given, 13)
	assert.False(t, s.find(a, netip.Addr{}).IsValid(), "none is left")
}
