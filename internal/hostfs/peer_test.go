// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	require.NoError(t, err)
	defer ln.Close()
	client, err := net.Dial("unix", ln.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	conn, err := ln.AcceptUnix()
	require.NoError(t, err)
	p := PeerOf(conn)
	if runtime.GOOS == "linux" || runtime.GOOS == "darwin" {
		assert.Equal(t, Peer{Known: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), PID: os.Getpid()}, p)
	} else {
		assert.Zero(t, p)
	}
	require.NoError(t, conn.Close())
	assert.Zero(t, PeerOf(conn), "of a connection that is closed nothing is known")
	assert.Zero(t, PeerOfFD(-1))
}

func TestWords(t *testing.T) {
	for _, tt := range []struct {
		name        string
		peer        Peer
		user, group uint32
		args        []any
	}{
		{"nothing", Peer{}, 65534, 65534, nil},
		{"process alone", Peer{PID: 7}, 65534, 65534, nil},
		{"all", Peer{Known: true, UID: 501, GID: 20, PID: 7}, 501, 20, []any{"peer_uid", uint32(501), "peer_gid", uint32(20), "peer_pid", 7}},
		{"no process", Peer{Known: true, UID: 0, GID: 20}, 0, 20, []any{"peer_uid", uint32(0), "peer_gid", uint32(20)}},
		{"owner of a file", Peer{Known: true, UID: 501, Unverified: true}, 501, 65534, []any{"peer_uid", uint32(501), "unverified", true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.user, tt.peer.User())
			assert.Equal(t, tt.group, tt.peer.Group())
			assert.Equal(t, tt.args, tt.peer.Args())
			b, err := json.Marshal(tt.peer)
			require.NoError(t, err)
			var back Peer
			require.NoError(t, json.Unmarshal(b, &back))
			assert.Equal(t, tt.peer, back, "it is carried over an upgrade")
		})
	}
}

func TestFileOf(t *testing.T) {
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	assert.Equal(t, `"/dev/null"`, FileOf(int(f.Fd())))
	require.NoError(t, f.Close())
	assert.Equal(t, "a file", FileOf(-1))
}
