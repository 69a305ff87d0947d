// SPDX-License-Identifier: Apache-2.0

package state

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClientsGolden(t *testing.T) {
	c := []Client{{Path: "/tmp/b", UID: 1000, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}}, {Path: "/tmp/a"}, {Path: "/tmp/\xff"}}
	b, err := encode(content{clients: c})
	require.NoError(t, err)
	assert.Equal(t, `{
	"datagram_clients": [
		{
			"path": "/tmp/a",
			"uid": 0
		},
		{
			"path": "/tmp/b",
			"uid": 1000,
			"mac": "02:00:00:00:00:01"
		}
	],
	"leases": [],
	"version": 1
}
`, string(b))
	got, err := decode(b)
	require.NoError(t, err)
	assert.Equal(t, []Client{c[1], c[0]}, got.clients)
	assert.Nil(t, got.extra)
}

func TestBadClients(t *testing.T) {
	for name, bad := range map[string]string{
		"no list":         `{}`,
		"relative":        `[{"path":"a"}]`,
		"no path":         `[{"uid":1}]`,
		"long":            `[{"path":"/` + strings.Repeat("a", maxClientPath) + `"}]`,
		"zero byte":       `[{"path":"/a\u0000b"}]`,
		"negative user":   `[{"path":"/a","uid":-1}]`,
		"no address":      `[{"path":"/a","mac":"x"}]`,
		"group address":   `[{"path":"/a","mac":"01:00:00:00:00:01"}]`,
		"long address":    `[{"path":"/a","mac":"02:00:00:00:00:00:00:01"}]`,
		"twice":           `[{"path":"/a"},{"path":"/a"}]`,
		"more than there": "[" + strings.Repeat(`{"path":"/a"},`, maxClients) + `{"path":"/a"}]`,
	} {
		_, err := decode([]byte(`{"version":1,"datagram_clients":` + bad + `}`))
		assert.Error(t, err, name)
	}
}

// TestClientsAreKept: over a restart, and when nothing is told of them.
func TestClientsAreKept(t *testing.T) {
	dir := t.TempDir()
	open := func() *File { return Open(Options{Dir: dir, Socket: filepath.Join(dir, "s")}) }
	f := open()
	assert.Empty(t, f.Clients())
	want := []Client{{Path: "/tmp/a", UID: 7, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}}}
	f.SaveClients(func() []Client { return want })
	require.NoError(t, f.Close())
	f = open()
	assert.Equal(t, want, f.Clients())
	f.SaveLeases(func() []Lease { return nil })
	require.NoError(t, f.Close())
	f = open()
	assert.Equal(t, want, f.Clients(), "what is not told of stays")
	f.SaveClients(func() []Client { return nil })
	require.NoError(t, f.Close())
	assert.Empty(t, open().Clients())
}
