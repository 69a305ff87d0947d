// SPDX-License-Identifier: Apache-2.0

package state

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzDecode: any bytes are taken or refused, and what is taken survives being written again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(goodFile))
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(`{"version":1,"x":null,"leases":[{}]}`))
	f.Add([]byte(`{"version":1,"leases":[{"mac":"02:00:00:00:00:01","ip":"10.0.0.2","expires":"9999-12-31T23:59:59.999999999+23:59"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decode(b)
		if err != nil {
			return
		}
		out, err := encode(c)
		if err != nil {
			if len(b) > maxSize/8 {
				return // indented, it may exceed the limit
			}
			t.Fatalf("cannot write what was read: %v", err)
		}
		again, err := decode(out)
		if err != nil {
			t.Fatalf("cannot read what was written: %v\n%s", err, out)
		}
		if len(again.Leases) != len(c.Leases) || again.Anchor != c.Anchor || again.Subnet != c.Subnet {
			t.Fatalf("%v became %v", c, again)
		}
	})
}

// TestLargest: as many leases as are ever kept fit the size limit.
func TestLargest(t *testing.T) {
	var c content
	for i := range maxLeases {
		c.Leases = append(c.Leases, Lease{
			MAC: net.HardwareAddr{2, 0, 0, 0, byte(i >> 8), byte(i)}, IP: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}),
			Expires: time.Unix(1<<33, 0).UTC(), Hostname: strings.Repeat("h", 63), Name: strings.Repeat("h", 63),
		})
	}
	b, err := encode(c)
	require.NoError(t, err)
	got, err := decode(b)
	require.NoError(t, err)
	assert.Len(t, got.Leases, maxLeases)

	c.Leases = append(c.Leases, Lease{MAC: net.HardwareAddr{4, 0, 0, 0, 0, 0}, IP: netip.MustParseAddr("10.0.0.1")})
	b, err = encode(c)
	require.NoError(t, err)
	_, err = decode(b)
	assert.ErrorContains(t, err, "limit")
}
