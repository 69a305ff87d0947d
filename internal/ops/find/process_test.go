// SPDX-License-Identifier: Apache-2.0

package find

import (
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProcesses finds this test among the machine's processes, by whichever way this system has.
func TestProcesses(t *testing.T) {
	list, err := processes(t.Context())
	require.NoError(t, err)
	checkOwn(t, list)
}

// TestPS does so by ps, where there is one; macOS has it always.
func TestPS(t *testing.T) {
	list, err := ps(RunProgram)(t.Context())
	if _, missing := exec.LookPath("ps"); missing != nil {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	checkOwn(t, list)
}

func checkOwn(t *testing.T, list []Process) {
	t.Helper()
	i := slices.IndexFunc(list, func(p Process) bool { return p.PID == os.Getpid() })
	require.GreaterOrEqual(t, i, 0)
	// ps cannot tell where an argument with a space ends.
	want := Process{PID: os.Getpid(), PPID: os.Getppid(), UID: os.Geteuid(), Args: []string{strings.Join(os.Args, " ")}}
	got := list[i]
	got.Dir = "" // only Linux tells
	got.Args = []string{strings.Join(got.Args, " ")}
	assert.Equal(t, want, got)
}

func TestIsDaemon(t *testing.T) {
	for _, tt := range []struct {
		argv []string
		want bool
	}{
		{[]string{"/opt/socket_vmnet/bin/socket_vmnet", "/s"}, true},
		{[]string{"socket_vmnet2", "--vmnet-mode=host", "/s"}, true},
		{[]string{"socket_vmnet", "migrate"}, true}, // the old program has no subcommands
		{[]string{"socket_vmnet2", "migrate"}, false},
		{[]string{"socket_vmnet2", "--version"}, false},
		{[]string{"socket_vmnet_client", "/s", "qemu"}, false},
		{[]string{"vim", "socket_vmnet"}, false},
		{nil, false},
	} {
		assert.Equal(t, tt.want, isDaemon(tt.argv), "%q", tt.argv)
	}
}

func TestSetupOf(t *testing.T) {
	const colima = "/opt/colima/bin/socket_vmnet"
	for _, tt := range []struct {
		name string
		argv []string
		want setup
	}{
		{
			"colima, with spaces",
			[]string{colima, "--vmnet-mode", "shared", "--socket-group", "staff", "--vmnet-gateway", "192.168.106.1", "--vmnet-dhcp-end", "192.168.106.254", "--pidfile", "/p", "/s"},
			setup{Program: colima, Socket: "/s", Mode: "shared", Gateway: netip.MustParseAddr("192.168.106.1"), Subnet: netip.MustParsePrefix("192.168.106.0/24"), Pidfile: "/p"},
		},
		{"bridged", []string{"x", "--vmnet-mode=bridged", "--vmnet-interface=en7", "/s"}, setup{Program: "x", Socket: "/s", Mode: "bridged", Interface: "en7"}},
		{"option of the new one", []string{"socket_vmnet2", "--max-clients=3", "/s"}, setup{Program: "socket_vmnet2", Socket: "/s", Mode: "shared"}},
		{"refused by the old one", []string{"socket_vmnet", "--max-clients=3", "/s"}, setup{Program: "socket_vmnet"}},
		{"no socket", []string{"socket_vmnet"}, setup{Program: "socket_vmnet"}},
		{"nothing", nil, setup{}},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, setupOf(tt.argv)) })
	}
}
