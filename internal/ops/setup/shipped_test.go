// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
)

var update = flag.Bool("update", false, "write what service install writes to etc/launchd and etc/systemd")

// etc is where the files are that come with the program.
const etc = "../../../etc/"

// shipped are the files that come with the program, and what installs the very same.
var shipped = []struct {
	file string
	goos string
	o    JobOptions
}{
	{"launchd/io.github.socket-vmnet2.socket_vmnet2.plist", "darwin", JobOptions{}},
	{"launchd/io.github.socket-vmnet2.socket_vmnet2.host.plist", "darwin", JobOptions{Network: "host"}},
	{"launchd/io.github.socket-vmnet2.socket_vmnet2.bridged.en0.plist", "darwin", JobOptions{Network: "bridged", Interface: "en0"}},
	{"launchd/io.github.socket-vmnet2.socket_vmnet2.activated.plist", "darwin", JobOptions{Activated: true}},
	{"launchd/io.github.socket-vmnet2.socket_vmnet2.agent.plist", "darwin", JobOptions{User: true}},
	{"systemd/socket_vmnet2.service", "linux", JobOptions{}},
	{"systemd/socket_vmnet2.socket", "linux", JobOptions{Activated: true}},
	{"systemd/socket_vmnet2-host.service", "linux", JobOptions{Network: "host"}},
	{"systemd/socket_vmnet2-host.socket", "linux", JobOptions{Network: "host", Activated: true}},
	{"systemd/user/socket_vmnet2.service", "linux", JobOptions{User: true}},
	{"systemd/user/socket_vmnet2.socket", "linux", JobOptions{User: true, Activated: true}},
}

// shipping is the system that made the files: @HOME@ is what a user puts the home directory in for.
func shipping(goos string) *system {
	return &system{System: find.System{GOOS: goos}, Home: "@HOME@", RuntimeDir: "/run/user/1000", UID: 1000}
}

// TestShipped compares what is installed for the default prefix with the files in etc, byte for byte.
func TestShipped(t *testing.T) {
	for _, tt := range shipped {
		t.Run(tt.file, func(t *testing.T) {
			o := tt.o
			o.Installing = true
			sys := shipping(tt.goos)
			if o.User && tt.goos == "darwin" {
				o.Daemon = []string{"--vmnet-gateway=192.168.105.1", "/@HOME@/.socket_vmnet2/shared"}
			}
			j, err := NewJob(sys, o)
			require.NoError(t, err)
			if o.User && tt.goos == "darwin" { // a path begins with a slash, and the home directory brings it
				j.Args[1] = "@HOME@/.socket_vmnet2/shared"
			}
			text, err := j.text(tt.file)
			require.NoError(t, err)
			if *update {
				require.NoError(t, os.MkdirAll(filepath.Dir(etc+tt.file), 0o755))
				require.NoError(t, os.WriteFile(etc+tt.file, []byte(text), 0o644))
			}
			want, err := os.ReadFile(etc + tt.file)
			require.NoError(t, err)
			assert.Equal(t, string(want), text, "go test ./internal/ops/setup -run TestShipped -update writes it")
		})
	}
}
