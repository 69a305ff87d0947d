// SPDX-License-Identifier: Apache-2.0

package state

import (
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	someID     = [16]byte{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0x4d, 0xef, 0x81, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}
	someSubnet = netip.MustParsePrefix("192.168.105.0/24")
)

func TestIdentity(t *testing.T) {
	dir, file := stateDir(t, "")
	f, log := open(dir)
	_, ok := f.AnchorID()
	assert.False(t, ok)
	_, ok = f.Subnet()
	assert.False(t, ok)
	require.NoError(t, f.SaveAnchorID(someID))
	require.NoError(t, f.SaveSubnet(someSubnet))
	f.SaveLeases(someLeases)
	id, ok := f.AnchorID()
	assert.True(t, ok, "at once")
	assert.Equal(t, someID, id)
	require.NoError(t, f.Close())
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, `{
	"version": 1,
	"interface_id": "01234567-89ab-4def-8123-456789abcdef",
	"subnet": "192.168.105.0/24",
	"leases": [
		{
			"mac": "52:54:00:12:34:01",
			"ip": "192.168.105.2",
			"expires": "2026-01-02T03:04:05Z",
			"hostname": "alpine",
			"name": "alpine-2"
		},
		{
			"mac": "52:54:00:12:34:02",
			"ip": "192.168.105.3",
			"expires": "2026-01-02T03:04:06Z"
		}
	]
}
`, string(b))

	g, log2 := open(dir)
	id, ok = g.AnchorID()
	assert.True(t, ok)
	assert.Equal(t, someID, id)
	s, ok := g.Subnet()
	assert.True(t, ok)
	assert.Equal(t, someSubnet, s)
	require.NoError(t, g.Close())
	assert.Empty(t, log.String()+log2.String())
}

// TestIdentityBesideLeases: a change of one of them keeps the others.
func TestIdentityBesideLeases(t *testing.T) {
	other := netip.MustParsePrefix("10.0.0.0/8")
	for name, change := range map[string]func(*File){
		"leases": func(f *File) { f.SaveLeases(f.Leases) },
		"id":     func(f *File) { _ = f.SaveAnchorID([16]byte{9}) },
		"subnet": func(f *File) { _ = f.SaveSubnet(other) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, file := stateDir(t, goodFile)
			f, _ := open(dir)
			change(f)
			require.NoError(t, f.Close())
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			c, err := decode(b)
			require.NoError(t, err)
			want := content{version, someID, someSubnet, someLeases()}
			switch name {
			case "id":
				want.Anchor = [16]byte{9}
			case "subnet":
				want.Subnet = other
			}
			assert.Equal(t, want, c)
		})
	}
}

func TestIdentityRefused(t *testing.T) {
	dir, _ := stateDir(t, "")
	f, _ := open(dir)
	assert.Error(t, f.SaveAnchorID([16]byte{}))
	for _, s := range []string{"192.168.105.1/24", "fd00::/64", "127.0.0.0/8", "224.0.0.0/8", "240.0.0.0/8", "10.0.0.0/31", "0.0.0.0/8", "10.0.0.0/7"} {
		assert.Error(t, f.SaveSubnet(netip.MustParsePrefix(s)), s)
	}
	assert.Error(t, f.SaveSubnet(netip.Prefix{}))
	require.NoError(t, f.Close())
	assert.NoFileExists(t, f.Path(), "nothing changed")
}
