// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "user"), filepath.Join(dir, "system")}
	write := func(file, text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(files[0], "# mine\n\nhost = /u/host\n  bridged.en0=/u/bridged  \nnetwork.lab = /u/lab\n")
	write(files[1], "host = /s/host\nbridged.en1 = /s/bridged\n")
	from := func(file int, socket string) []place { return []place{{socket, files[file]}} }
	at := func(sockets ...string) (all []place) {
		for _, s := range sockets {
			all = append(all, place{socket: s})
		}
		return all
	}
	tests := []struct {
		name string
		args string
		want []place
	}{
		{"option", "--daemon /x", []place{{"/x", "--daemon"}}},
		{"user's file first", "--operation-mode host", from(0, "/u/host")},
		{"user's bridge", "--operation-mode bridged --shared-interface en0", from(0, "/u/bridged")},
		{"system's bridge", "--operation-mode bridged --shared-interface en1", from(1, "/s/bridged")},
		{"network", "--network lab", from(0, "/u/lab")},
		{"usual paths", "", at("/var/run/socket_vmnet", "/opt/homebrew/var/run/socket_vmnet", "/usr/local/var/run/socket_vmnet",
			"/private/var/run/lima/socket_vmnet.shared")},
		{"usual paths of a bridge", "--operation-mode bridged --shared-interface en7", at("/var/run/socket_vmnet.bridged.en7",
			"/opt/homebrew/var/run/socket_vmnet.bridged.en7", "/usr/local/var/run/socket_vmnet.bridged.en7",
			"/private/var/run/lima/socket_vmnet.bridged")},
		{"usual paths of a host network by name", "--network host", at("/var/run/socket_vmnet.host",
			"/opt/homebrew/var/run/socket_vmnet.host", "/usr/local/var/run/socket_vmnet.host",
			"/private/var/run/lima/socket_vmnet.host")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parse(strings.Fields("--fd 3 " + tt.args))
			require.NoError(t, err)
			got, err := find(c, files)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
	t.Run("unknown network", func(t *testing.T) {
		_, err := find(&config{network: "other"}, files)
		require.ErrorContains(t, err, `"network.other = SOCKET"`)
	})
	for _, bad := range []string{"shared", "shared /x", "nat = /x", "bridged. = /x", "shared = x", "shared =", "= /x", strings.Repeat("x", 70000)} {
		t.Run("bad line", func(t *testing.T) {
			write(files[0], "# first\n"+bad+"\n")
			_, err := find(&config{mode: "shared"}, files)
			require.ErrorContains(t, err, files[0])
		})
	}
}

func TestConfigFiles(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", "/x")
	assert.Equal(t, []string{"/x/" + configName, "/etc/" + configName}, configFiles())
	t.Setenv("XDG_CONFIG_HOME", "relative")
	files := configFiles()
	require.Len(t, files, 2)
	assert.True(t, filepath.IsAbs(files[0]), files[0])
	assert.Contains(t, files[0], "/.config/")
}
