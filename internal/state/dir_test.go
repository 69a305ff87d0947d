// SPDX-License-Identifier: Apache-2.0

package state

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDir(t *testing.T) {
	type env map[string]string
	all := env{"STATE_DIRECTORY": "/run/s", "XDG_STATE_HOME": "/x", "HOME": "/home/u"}
	tests := []struct {
		name       string
		flag, goos string
		euid       int
		env        env
		want       string // empty = errNoDir
	}{
		{"flag beats all", "/f", "linux", 0, all, "/f"},
		{"root, Linux", "", "linux", 0, env{}, "/var/lib/socket_vmnet2"},
		{"root, macOS", "", "darwin", 0, env{}, "/var/db/socket_vmnet2"},
		{"root, started by systemd", "", "linux", 0, all, "/run/s"},
		{"several directories", "", "linux", 1000, env{"STATE_DIRECTORY": "/a:/b"}, "/a"},
		{"relative STATE_DIRECTORY", "", "linux", 0, env{"STATE_DIRECTORY": "a"}, "/var/lib/socket_vmnet2"},
		{"user, XDG", "", "linux", 1000, env{"XDG_STATE_HOME": "/x", "HOME": "/home/u"}, "/x/socket_vmnet2"},
		{"user, home", "", "linux", 1000, env{"HOME": "/home/u"}, "/home/u/.local/state/socket_vmnet2"},
		{"user, macOS", "", "darwin", 501, env{"HOME": "/Users/u", "XDG_STATE_HOME": "/x"}, "/Users/u/Library/Application Support/socket_vmnet2"},
		{"user with relative home", "", "linux", 1000, env{"HOME": "."}, ""},
		{"user without home, macOS", "", "darwin", 501, env{"XDG_STATE_HOME": "/x"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Dir(tt.flag, tt.goos, tt.euid, func(k string) string { return tt.env[k] })
			if tt.want == "" {
				assert.ErrorIs(t, err, errNoDir)
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestFileName(t *testing.T) {
	// printf %s /var/run/socket_vmnet | sha256sum
	assert.Equal(t, "53ca451537133c732fb1bc59584cb7caea85174485852d8a6ec4e9fd2ca3a003", FileName("/var/run/socket_vmnet"))
	assert.NotEqual(t, FileName("/a"), FileName("/b"))
}

func TestCleanHostname(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"digits and hyphen", "vm-01", "vm-01"},
		{"first label only", "vm.example.com", "vm"},
		{"with the terminator of C", "vm\x00", "vm"},
		{"empty", "", ""},
		{"line break", "a\nINFO | b", ""},
		{"not ASCII", "bücher", ""},
		{"hyphen first", "-a", ""},
		{"longest", strings.Repeat("a", 63), strings.Repeat("a", 63)},
		{"too long", strings.Repeat("a", 63) + "b", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, CleanHostname(tt.in)) })
	}
}
