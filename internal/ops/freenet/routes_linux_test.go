// SPDX-License-Identifier: Apache-2.0

package freenet

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// message is one of rtnetlink's, of a route to dst/bits by the interface oif. No dst is the default route.
func message(kind, table byte, bits byte, dst []byte, oif uint32) []byte {
	attr := func(kind uint16, value []byte) []byte {
		b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
		return append(binary.NativeEndian.AppendUint16(b, kind), value...)
	}
	data := []byte{syscall.AF_INET, bits, 0, 0, table, 3, 0, kind, 0, 0, 0, 0}
	data = append(data, attr(syscall.RTA_TABLE, binary.NativeEndian.AppendUint32(nil, uint32(table)))...)
	if dst != nil {
		data = append(data, attr(syscall.RTA_DST, dst)...)
	}
	if oif != 0 {
		data = append(data, attr(syscall.RTA_OIF, binary.NativeEndian.AppendUint32(nil, oif))...)
	}
	b := binary.NativeEndian.AppendUint32(nil, uint32(16+len(data)))
	b = binary.NativeEndian.AppendUint16(b, syscall.RTM_NEWROUTE)
	b = append(b, make([]byte, 10)...)
	return append(b, data...)
}

func TestParseRoutes(t *testing.T) {
	var rib []byte
	for _, m := range [][]byte{
		message(syscall.RTN_UNICAST, syscall.RT_TABLE_MAIN, 0, nil, 2),
		message(syscall.RTN_UNICAST, syscall.RT_TABLE_MAIN, 24, []byte{192, 168, 7, 0}, 2),
		message(syscall.RTN_UNICAST, 52, 16, []byte{10, 9, 0, 0}, 3), // a VPN's table
		message(syscall.RTN_UNICAST, syscall.RT_TABLE_MAIN, 16, []byte{10, 8, 0, 0}, 0),
		message(syscall.RTN_LOCAL, syscall.RT_TABLE_LOCAL, 32, []byte{192, 168, 7, 3}, 2),
		message(syscall.RTN_BROADCAST, syscall.RT_TABLE_LOCAL, 32, []byte{192, 168, 7, 255}, 2),
		message(syscall.RTN_UNREACHABLE, syscall.RT_TABLE_MAIN, 8, []byte{10, 0, 0, 0}, 0),
	} {
		rib = append(rib, m...)
	}
	rib = append(rib, 16, 0, 0, 0, syscall.NLMSG_DONE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	got, err := parseRoutes(rib, func(index int) string { return []string{"", "lo", "eth0", "wg0"}[index] })
	require.NoError(t, err)
	assert.Equal(t, list(
		"a route by eth0 0.0.0.0/0", "a route by eth0 192.168.7.0/24", "a route by wg0 10.9.0.0/16", "a route by several ways 10.8.0.0/16",
	), got)
	for n := range rib { // cut anywhere
		_, _ = parseRoutes(rib[:n], func(int) string { return "" })
	}
}
