// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
)

func TestSubcommand(t *testing.T) {
	names := []string{"selftest", "status"}
	tests := []struct {
		name string
		argv []string
		want string
		args []string
	}{
		{"subcommand", []string{"socket_vmnet2", "selftest"}, "selftest", []string{}},
		{"with arguments", []string{"/opt/bin/socket_vmnet2", "selftest", "--json", "x"}, "selftest", []string{"--json", "x"}},
		{"a name that begins alike", []string{"socket_vmnet2-beta", "status"}, "status", []string{}},
		{"the old name", []string{"socket_vmnet", "selftest"}, "", nil},
		{"a wrapper", []string{"vmnet", "selftest"}, "", nil},
		{"a socket's path", []string{"socket_vmnet2", "./selftest"}, "", nil},
		{"the begin of a name", []string{"socket_vmnet2", "self"}, "", nil},
		{"another case", []string{"socket_vmnet2", "Selftest"}, "", nil},
		{"behind an option", []string{"socket_vmnet2", "--vmnet-mode=host", "selftest"}, "", nil},
		{"behind two dashes", []string{"socket_vmnet2", "--", "selftest"}, "", nil},
		{"empty", []string{"socket_vmnet2", ""}, "", nil},
		{"no arguments", []string{"socket_vmnet2"}, "", nil},
		{"no name", nil, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name, args := Subcommand(tt.argv, names)
			assert.Equal(t, tt.want, name)
			assert.Equal(t, tt.args, args)
		})
	}
}

// networkConfig reads args as a subcommand does.
func networkConfig(t *testing.T, args ...string) (*Config, error) {
	t.Helper()
	n := NewNetwork()
	set, err := ParseFlags(n.Flags(), args, false)
	if err != nil {
		return nil, err
	}
	return n.Config(cli.NewContext(nil, set, nil), IO{LookupEnv: func(string) (string, bool) { return "", false }})
}

// TestNetworkConfigIsTheDaemons: the same options mean the same network, and the same complaints.
func TestNetworkConfigIsTheDaemons(t *testing.T) {
	for _, line := range []string{
		"",
		"--backend=usernet --vmnet-mode host",
		"--vmnet-mode=bridged --vmnet-interface=en0 --backend=vmnet",
		"--vmnet-gateway=10.1.2.1 --vmnet-mask=255.255.0.0 --vmnet-dhcp-end=10.1.2.9 --vmnet-disable-dhcp",
		"--vmnet-nat66-prefix=fd00:1:: --vmnet-interface-id=6e5c5a3c-0000-4000-8000-000000000001",
		"--dns-record=a.b=1.2.3.4 --dns-record=c=5.6.7.8 --vmnet-gateway=10.1.2.1 --vmnet-reserve=5a:94:ef:00:00:01=10.1.2.7",
		"--isolate --offload --vmnet-api=network --vmnet-mtu=4000 --backend=vmnet",
		"--vmnet-mode=x",
		"--vmnet-mode=bridged",
		"--vmnet-mask=255.0.0.0",
		"--vmnet-mtu=1",
		"--dns-record=a",
		"--vmnet-gateway=10.1.2.1 --vmnet-dhcp-end=10.9.9.9",
	} {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			daemon := parse(t, New, slices.Concat([]string{"socket_vmnet2"}, args, []string{"/s"}))
			cfg, err := networkConfig(t, args...)
			if daemon.cfg == nil {
				require.Error(t, err)
				assert.Contains(t, daemon.stderr, escape(err.Error()))
				return
			}
			require.NoError(t, err)
			daemon.cfg.SocketPath = ""
			assert.Equal(t, daemon.cfg, cfg)
		})
	}
}

// TestNetworkFlags: a subcommand that only opens a network takes no option of the daemon.
func TestNetworkFlags(t *testing.T) {
	for _, arg := range []string{"--pidfile=x", "--socket-group=x", "--state-dir=x", "--list-interfaces", "--runtime-dir=/r", "--allow-uid=0", "--version"} {
		_, err := networkConfig(t, arg)
		assert.ErrorContains(t, err, "unknown option --", arg)
	}
}
