// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMetricsOptions(t *testing.T) {
	for _, c := range []struct {
		name     string
		args     []string
		want     string // address, or a part of the error
		anywhere bool
		bad      bool
	}{
		{name: "none"},
		{name: "loopback", args: []string{"--metrics-listen=127.0.0.1:9105"}, want: "127.0.0.1:9105"},
		{name: "any free port", args: []string{"--metrics-listen", "127.0.0.1:0"}, want: "127.0.0.1:0"},
		{name: "another loopback", args: []string{"--metrics-listen=127.8.8.8:9105"}, want: "127.8.8.8:9105"},
		{name: "localhost", args: []string{"--metrics-listen=localhost:9105"}, want: "127.0.0.1:9105"},
		{name: "IPv6", args: []string{"--metrics-listen=[::1]:9105"}, want: "[::1]:9105"},
		{name: "IPv4 in IPv6", args: []string{"--metrics-listen=[::ffff:127.0.0.1]:9105"}, want: "127.0.0.1:9105"},
		{name: "last one wins", args: []string{"--metrics-listen=0.0.0.0:1", "--metrics-listen=127.0.0.1:2"}, want: "127.0.0.1:2"},
		{name: "anywhere", args: []string{"--metrics-anywhere", "--metrics-listen=0.0.0.0:9105"}, want: "0.0.0.0:9105", anywhere: true},
		{name: "anywhere and loopback", args: []string{"--metrics-listen=[::1]:1", "--metrics-anywhere"}, want: "[::1]:1", anywhere: true},

		{name: "all addresses", args: []string{"--metrics-listen=0.0.0.0:9105"}, want: "or allow it by --metrics-anywhere", bad: true},
		{name: "all IPv6 addresses", args: []string{"--metrics-listen=[::]:9105"}, want: "or allow it by --metrics-anywhere", bad: true},
		{name: "an address of the LAN", args: []string{"--metrics-listen=192.168.1.2:9105"}, want: "or allow it by --metrics-anywhere", bad: true},
		{name: "nearly loopback", args: []string{"--metrics-listen=126.255.255.255:1"}, want: "or allow it by --metrics-anywhere", bad: true},
		{name: "the LAN's in IPv6", args: []string{"--metrics-listen=[::ffff:10.0.0.1]:1"}, want: "or allow it by --metrics-anywhere", bad: true},
		{name: "empty", args: []string{"--metrics-listen="}, want: "--metrics-listen= is no address with a port", bad: true},
		{name: "port alone", args: []string{"--metrics-listen=9105"}, want: "=9105 is no address with a port, such as 127.0.0.1:9105", bad: true},
		{name: "no address", args: []string{"--metrics-listen=:9105"}, want: "=:9105 is no address", bad: true},
		{name: "no port", args: []string{"--metrics-listen=127.0.0.1"}, want: "is no address with a port", bad: true},
		{name: "port too high", args: []string{"--metrics-listen=127.0.0.1:65536"}, want: "is no address with a port", bad: true},
		{name: "a name", args: []string{"--metrics-listen=mac.local:9105"}, want: "is no address with a port", bad: true},
		{name: "a zone", args: []string{"--metrics-listen=[fe80::1%en0]:9105"}, want: "is no address with a port", bad: true},
		{name: "a path", args: []string{"--metrics-listen=/run/metrics"}, want: "is no address with a port", bad: true},
		{name: "anywhere alone", args: []string{"--metrics-anywhere"}, want: "--metrics-anywhere needs --metrics-listen=ADDR:PORT", bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parse(t, New, append(append([]string{"socket_vmnet2", "--vmnet-mode=host"}, c.args...), "/s"))
			if c.bad {
				assert.Nil(t, r.cfg)
				assert.Contains(t, strings.ReplaceAll(r.stderr, "\n", " "), c.want)
				return
			}
			require.NotNil(t, r.cfg, r.stderr)
			var want netip.AddrPort
			if c.want != "" {
				want = netip.MustParseAddrPort(c.want)
			}
			assert.Equal(t, want, r.cfg.MetricsListen)
			assert.Equal(t, c.anywhere, r.cfg.MetricsAnywhere)
		})
	}
}
