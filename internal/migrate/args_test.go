// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParseArgs(t *testing.T) {
	const colima = "/opt/colima/bin/socket_vmnet"
	tests := []struct {
		name string
		argv []string
		want daemonArgs
	}{
		{
			"colima, with spaces",
			[]string{colima, "--vmnet-mode", "shared", "--socket-group", "staff", "--vmnet-gateway", "192.168.106.1", "--vmnet-dhcp-end", "192.168.106.254", "--pidfile", "/p", "/s"},
			daemonArgs{Program: colima, Socket: "/s", Mode: "shared", Gateway: "192.168.106.1", Subnet: "192.168.106.0/24", Pidfile: "/p"},
		},
		{"bridged", []string{"x", "--vmnet-mode=bridged", "--vmnet-interface=en7", "/s"}, daemonArgs{Program: "x", Socket: "/s", Mode: "bridged", Interface: "en7"}},
		{"option of the new one", []string{"socket_vmnet2", "--max-clients=3", "/s"}, daemonArgs{Program: "socket_vmnet2", Socket: "/s", Mode: "shared"}},
		{"refused by the old one", []string{"socket_vmnet", "--max-clients=3", "/s"}, daemonArgs{Program: "socket_vmnet"}},
		{"no socket", []string{"socket_vmnet"}, daemonArgs{Program: "socket_vmnet"}},
		{"nothing", nil, daemonArgs{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, parseArgs(tt.argv)) })
	}
}

func TestSamePath(t *testing.T) {
	assert.True(t, samePath("/var/run/x", "/private/var/run/x"))
	assert.True(t, samePath("/etc/x", "/private/etc/x"))
	assert.False(t, samePath("/var/run/x", "/var/run/y"))
	assert.False(t, samePath("", ""))
	assert.Equal(t, "/private/other/x", public("/private/other/x"))
}
