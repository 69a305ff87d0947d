// SPDX-License-Identifier: Apache-2.0

package state

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	someID     = [16]byte{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0x4d, 0xef, 0x81, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}
	someSubnet = netip.MustParsePrefix("192.168.105.0/24")
)

// goodIdentity is goodFile with an identity.
var goodIdentity = strings.TrimSuffix(goodFile, "}") +
	`, "interface_id": "01234567-89ab-4def-8123-456789abcdef", "subnet": "192.168.105.0/24", "later": [1]}`

func TestIdentity(t *testing.T) {
	dir, file := stateDir(t, "")
	f, log := open(dir)
	_, ok := f.AnchorID()
	assert.False(t, ok)
	_, ok = f.Subnet()
	assert.False(t, ok)
	require.NoError(t, f.SaveAnchorID(someID))
	require.NoError(t, f.SaveSubnet(someSubnet))
	id, ok := f.AnchorID()
	assert.True(t, ok, "at once")
	assert.Equal(t, someID, id)
	require.NoError(t, f.Close())
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, `{
	"interface_id": "01234567-89ab-4def-8123-456789abcdef",
	"leases": [],
	"subnet": "192.168.105.0/24",
	"version": 1
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

// TestIdentityBesideLeases: a change of one of them keeps the others, and what a newer program wrote.
func TestIdentityBesideLeases(t *testing.T) {
	other := netip.MustParsePrefix("10.0.0.0/8")
	for name, change := range map[string]func(*File){
		"leases": func(f *File) { f.SaveLeases(f.Leases) },
		"id":     func(f *File) { _ = f.SaveAnchorID([16]byte{9}) },
		"subnet": func(f *File) { _ = f.SaveSubnet(other) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, file := stateDir(t, goodIdentity)
			f, _ := open(dir)
			change(f)
			require.NoError(t, f.Close())
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			c, err := decode(b)
			require.NoError(t, err)
			want := content{leases: someLeases(), anchor: someID, subnet: someSubnet, extra: c.extra}
			switch name {
			case "id":
				want.anchor = [16]byte{9}
			case "subnet":
				want.subnet = other
			}
			assert.Equal(t, want, c)
			assert.Contains(t, c.extra, "later")
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

// TestDamagedIdentity: the file is ignored with one warning and replaced at the next change.
func TestDamagedIdentity(t *testing.T) {
	for name, change := range map[string][2]string{
		"short id":       {"01234567-89ab", "0123-89ab"},
		"id without -":   {"01234567-89ab-4def", "01234567089ab-4def"},
		"empty id":       {"01234567-89ab-4def-8123-456789abcdef", ""},
		"id as number":   {`"01234567-89ab-4def-8123-456789abcdef"`, "7"},
		"bad subnet":     {"192.168.105.0/24", "x"},
		"empty subnet":   {"192.168.105.0/24", ""},
		"not masked":     {"192.168.105.0/24", "192.168.105.1/24"},
		"IPv6":           {"192.168.105.0/24", "fd00::/64"},
		"multicast":      {"192.168.105.0/24", "224.0.0.0/8"},
		"subnet as list": {`"192.168.105.0/24"`, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(goodIdentity, change[0], change[1], 1)
			require.NotEqual(t, goodIdentity, bad)
			dir, file := stateDir(t, bad)
			f, log := open(dir)
			_, ok := f.AnchorID()
			assert.False(t, ok)
			_, ok = f.Subnet()
			assert.False(t, ok)
			assert.Empty(t, f.Leases())
			assert.Equal(t, 1, warnings(log), log)
			assert.Contains(t, log.String(), file)
			require.NoError(t, f.SaveSubnet(someSubnet))
			require.NoError(t, f.Close())
			g, log := open(dir)
			s, _ := g.Subnet()
			assert.Equal(t, someSubnet, s)
			assert.Empty(t, log.String())
		})
	}
}
