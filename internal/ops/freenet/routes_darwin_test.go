// SPDX-License-Identifier: Apache-2.0

package freenet

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/route"
)

// TestNoRoutesAreNotAllFree: a system that hides its routes has not told that it has none.
func TestNoRoutesAreNotAllFree(t *testing.T) {
	_, err := routesIn(nil)
	require.ErrorIs(t, err, errHidden)
	addrs := make([]route.Addr, syscall.RTAX_MAX)
	addrs[syscall.RTAX_DST], addrs[syscall.RTAX_NETMASK] = &route.Inet4Addr{IP: [4]byte{10, 9, 0, 0}}, &route.Inet4Addr{IP: [4]byte{255, 255, 0, 0}}
	got, err := routesIn([]route.Message{&route.RouteMessage{Flags: syscall.RTF_UP, Index: 99, Addrs: addrs}})
	require.NoError(t, err)
	assert.Equal(t, list("a route by interface 99 10.9.0.0/16"), got)
	got, err = routesIn([]route.Message{&route.RouteMessage{}})
	require.NoError(t, err, "one that is down")
	assert.Empty(t, got)
}
