// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInetAton(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"192.168.105.1", "192.168.105.1"},
		{"192.168.27137", "192.168.106.1"},
		{"3232262401", "192.168.105.1"},
		{"0xc0a86901", "192.168.105.1"},
		{"0300.0250.0151.01", "192.168.105.1"},
		{"10.1", "10.0.0.1"},
		{"0", "0.0.0.0"},
		{"4294967295", "255.255.255.255"},
		{"00000000012.0.0.1", "10.0.0.1"},
	} {
		a, ok := InetAton(c.in)
		assert.True(t, ok, c.in)
		assert.Equal(t, c.want, a.String(), c.in)
	}
	for _, in := range []string{
		"", ".", "1.", ".1", "1..2", "1.2.3.4.5", "256.0.0.1", "1.2.3.256", "10.16777216", "10.0.65536", "4294967296",
		"99999999999999999999", "0x", "0x1g", "08", "6x2", "1.2.3.09", "-1", "+1", "1.2.3.-4", " 1.2.3.4", "1.2.3.4 ", "1_0.0.0.1",
		"0b1", "0o1", "a.b.c.d", "::1", "192.168.105.1/24", "1.2.3.4\n", "٣.0.0.1",
	} {
		_, ok := InetAton(in)
		assert.False(t, ok, in)
	}
}

// TestAddresses are the command lines with addresses that are accepted.
func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		name, argv      string
		gw, subnet, end string
	}{
		{"defaults", "--vmnet-gateway=192.168.105.1", "192.168.105.1", "192.168.105.0/24", "192.168.105.254"},
		{"all three", "--vmnet-gateway=192.168.105.1 --vmnet-dhcp-end=192.168.105.100 --vmnet-mask=255.255.255.0", "192.168.105.1", "192.168.105.0/24", "192.168.105.100"},
		{"254 is outside", "--vmnet-gateway=192.168.105.1 --vmnet-mask=255.255.255.128", "192.168.105.1", "192.168.105.0/25", "192.168.105.126"},
		{"254 is before the gateway", "--vmnet-gateway=10.0.0.255 --vmnet-mask=255.255.0.0", "10.0.0.255", "10.0.0.0/16", "10.0.255.254"},
		{"smallest subnet", "--vmnet-gateway=10.0.0.1 --vmnet-mask=255.255.255.252", "10.0.0.1", "10.0.0.0/30", "10.0.0.2"},
		{"end is the broadcast address", "--vmnet-gateway=10.0.0.1 --vmnet-dhcp-end=10.0.0.255", "10.0.0.1", "10.0.0.0/24", "10.0.0.255"},
		{"no room but no DHCP either", "--vmnet-gateway=10.0.0.254 --vmnet-disable-dhcp", "10.0.0.254", "10.0.0.0/24", "10.0.0.254"},
		{"no room, isolated network", "--vmnet-gateway=10.0.0.254 --vmnet-mode=host --vmnet-network-identifier=0E21C1D4-43D9-4363-B767-A6488D25C93E", "10.0.0.254", "10.0.0.0/24", "10.0.0.254"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parse(t, Old, words(c.argv+" /s"))
			require.NotNil(t, r.cfg, r.stderr)
			assert.Equal(t, c.gw, r.cfg.Gateway.String())
			assert.Equal(t, c.subnet, r.cfg.Subnet.String())
			assert.Equal(t, c.end, r.cfg.DHCPEnd.String())
			assert.Equal(t, strings.Contains(c.argv, "dhcp-end"), r.cfg.DHCPEndSet)
			assert.Empty(t, r.cfg.Warnings)
		})
	}
	t.Run("none", func(t *testing.T) {
		r := parse(t, Old, words("/s"))
		require.NotNil(t, r.cfg)
		assert.Zero(t, r.cfg.Gateway)
		assert.Zero(t, r.cfg.Subnet)
		assert.Zero(t, r.cfg.DHCPEnd)
	})
}

func TestWarnings(t *testing.T) {
	const (
		gateway = "--vmnet-gateway=IP should be explicitly specified to avoid conflicting with other applications"
		id      = "0E21C1D4-43D9-4363-B767-A6488D25C93E"
	)
	for _, c := range []struct {
		name, argv string
		want       []string
	}{
		{"shared without gateway", "", []string{gateway}},
		{"host without gateway", "--vmnet-mode=host", nil},
		{"with gateway", "--vmnet-gateway=10.1", nil},
		{"disable-dhcp with all", "--vmnet-disable-dhcp --vmnet-gateway=10.1 --vmnet-dhcp-end=10.9 --vmnet-interface-id=" + id + " --vmnet-network-identifier=" + id, []string{
			"--vmnet-dhcp-end has no effect with --vmnet-disable-dhcp",
			"--vmnet-interface-id has no effect with --vmnet-disable-dhcp",
			"--vmnet-network-identifier has no effect with --vmnet-disable-dhcp",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parse(t, Old, words(c.argv+" /s"))
			require.NotNil(t, r.cfg, r.stderr)
			assert.Equal(t, c.want, r.cfg.Warnings)
		})
	}
}

// TestBadValues are values that end the program with code 1, and whether the usage text follows: it does where socket_vmnet
// checks the value itself, and does not where it lets vmnet refuse it.
func TestBadValues(t *testing.T) {
	const gw = "--vmnet-gateway=192.168.105.1 "
	for _, c := range []struct {
		name, argv, stderr string
		usage              bool
	}{
		{"bridged without interface", "--vmnet-mode=bridged", `ERROR| vmnet mode "bridged" require --vmnet-interface to be specified`, true},
		{"bridged with gateway", gw + "--vmnet-mode=bridged --vmnet-interface=en0", `ERROR| vmnet mode "bridged" conflicts with --vmnet-gateway`, true},
		{"gateway", "--vmnet-gateway=192.168.105.256", `ERROR| invalid address "192.168.105.256" was specified for --vmnet-gateway`, true},
		{"end without gateway", "--vmnet-mode=host --vmnet-dhcp-end=192.168.105.9", "ERROR| --vmnet-dhcp-end=IP requires --vmnet-gateway=IP", true},
		{"mask without gateway", "--vmnet-mode=host --vmnet-mask=255.255.255.0", "ERROR| --vmnet-mask=MASK requires --vmnet-gateway=IP", true},
		{"end without gateway, shared", "--vmnet-dhcp-end=192.168.105.9", "WARN | --vmnet-gateway=IP should be explicitly specified to avoid conflicting with other applications\nERROR| --vmnet-dhcp-end=IP requires --vmnet-gateway=IP", true},

		{"end", gw + "--vmnet-dhcp-end=none", `ERROR| invalid address "none" was specified for --vmnet-dhcp-end`, false},
		{"end outside", gw + "--vmnet-dhcp-end=192.168.106.9", "ERROR| --vmnet-dhcp-end=192.168.106.9 is not in the network 192.168.105.0/24", false},
		{"end at the gateway", gw + "--vmnet-dhcp-end=192.168.105.1", "ERROR| --vmnet-gateway=192.168.105.1 leaves no address for guests: they get those after it, up to 192.168.105.1", false},
		{"mask", gw + "--vmnet-mask=24", "ERROR| invalid --vmnet-mask=24: its one bits must come first, as in 255.255.255.0", false},
		{"mask in no form", gw + "--vmnet-mask=/24", `ERROR| invalid address "/24" was specified for --vmnet-mask`, false},
		{"mask with a hole", gw + "--vmnet-mask=255.0.255.0", "ERROR| invalid --vmnet-mask=255.0.255.0: its one bits must come first, as in 255.255.255.0", false},
		{"mask of all ones", gw + "--vmnet-mask=255.255.255.255", "ERROR| invalid --vmnet-mask=255.255.255.255: use one from 255.0.0.0 to 255.255.255.252", false},
		{"network address", "--vmnet-gateway=192.168.105.0", "ERROR| --vmnet-gateway=192.168.105.0 is the network address of 192.168.105.0/24", false},
		{"broadcast address", "--vmnet-gateway=192.168.105.255", "ERROR| --vmnet-gateway=192.168.105.255 is the broadcast address of 192.168.105.0/24", false},
		{"loopback", "--vmnet-gateway=127.0.0.1", "ERROR| invalid --vmnet-gateway=127.0.0.1: use an address of a private network, such as 192.168.105.1", false},
		{"nat66 text", gw + "--vmnet-nat66-prefix=x", "ERROR| invalid --vmnet-nat66-prefix=x: use an IPv6 prefix in fd00::/8, such as fd00:1234::", false},
		{"nat66 outside", gw + "--vmnet-nat66-prefix=2001:db8::", "ERROR| --vmnet-nat66-prefix=2001:db8:: is not in fd00::/8: use fd00:1234:: or the like", false},
		{"nat66 host bits", gw + "--vmnet-nat66-prefix=fd00:1234::1", "ERROR| --vmnet-nat66-prefix=fd00:1234::1 has bits behind the first 64; use fd00:1234::", false},
		{"empty interface", "--vmnet-mode=bridged --vmnet-interface=", `ERROR| --vmnet-interface is empty: give an interface of this host, such as "en0"`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parse(t, Old, words(c.argv+" /s"))
			assert.Nil(t, r.cfg)
			assert.Equal(t, 1, r.code)
			assert.Equal(t, c.stderr+"\n", r.stderr)
			assert.Equal(t, c.usage, strings.HasPrefix(r.stdout, "Usage: "), r.stdout)
		})
	}
}

// TestNewTexts: where socket_vmnet's text does not help, the new program has its own.
func TestNewTexts(t *testing.T) {
	const gw = "--vmnet-gateway=192.168.105.1 "
	for argv, want := range map[string]string{
		"--vmnet-mode=bridge /s":              "invalid --vmnet-mode=bridge: use host, shared or bridged" + seeHelp,
		"--vmnet-gateway=192.168.105.1/24 /s": "invalid --vmnet-gateway=192.168.105.1/24: use 192.168.105.1, and --vmnet-mask=255.255.255.0" + seeHelp,
		"--vmnet-gateway=192.168.105.1/x /s":  "invalid --vmnet-gateway=192.168.105.1/x: use an IPv4 address such as 192.168.105.1" + seeHelp,
		gw + "--vmnet-dhcp-end=none /s":       "invalid --vmnet-dhcp-end=none: use an IPv4 address such as 192.168.105.1",
		gw + "--vmnet-mask=/20 /s":            "invalid --vmnet-mask=/20: use 255.255.240.0",
		gw + "--vmnet-mask=/31 /s":            "invalid --vmnet-mask=/31: use a netmask such as 255.255.255.0",
		"--vmnet-interface-id=x /s":           "invalid --vmnet-interface-id=x: use a UUID such as that of uuidgen" + seeHelp,
		"":                                    "no SOCKET: give the path of the socket to serve, such as /tmp/vmnet.sock" + seeHelp,
		"s1 s2":                               "two SOCKETs given: s1, s2" + seeHelp,
		gw + "-p/p /s /t /u":                  "two SOCKETs given: /s, /t" + seeHelp,
		"--vmnet-gatway=1 /s":                 "unknown option --vmnet-gatway: did you mean --vmnet-gateway?" + seeHelp,
	} {
		r := parse(t, New, words(argv))
		assert.Nil(t, r.cfg)
		assert.Equal(t, 1, r.code)
		assert.Equal(t, "ERROR| "+want+"\n", r.stderr)
		assert.Empty(t, r.stdout)
	}
}

// seeHelp is behind what is wrong with a command line of the new program.
const seeHelp = " (see socket_vmnet2 --help)"

// TestPublicGateway: the new program refuses a network that would hide hosts of the Internet, the old one takes any.
func TestPublicGateway(t *testing.T) {
	for _, c := range []struct{ argv, refused string }{
		{"--vmnet-gateway=192.168.105.1", ""},
		{"--vmnet-gateway=10.0.0.1 --vmnet-mask=255.0.0.0", ""},
		{"--vmnet-gateway=172.16.0.1 --vmnet-mask=255.240.0.0", ""},
		{"--vmnet-gateway=100.64.0.1", ""},
		{"--vmnet-gateway=8.8.8.1", "8.8.8.1: guests would not reach the Internet's hosts in 8.8.8.0/24"},
		{"--vmnet-gateway=172.32.0.1", "172.32.0.1: guests would not reach the Internet's hosts in 172.32.0.0/24"},
		{"--vmnet-gateway=100.128.0.1", "100.128.0.1: guests would not reach the Internet's hosts in 100.128.0.0/24"},
		{"--vmnet-gateway=192.168.105.1 --vmnet-mask=255.0.0.0", "192.168.105.1: guests would not reach the Internet's hosts in 192.0.0.0/8"},
	} {
		t.Run(c.argv, func(t *testing.T) {
			r := parse(t, New, append([]string{"socket_vmnet2"}, strings.Fields(c.argv+" /s")...))
			if c.refused == "" {
				assert.NotNil(t, r.cfg, r.stderr)
			} else {
				assert.Nil(t, r.cfg)
				assert.Equal(t, 1, r.code)
				assert.Equal(t, "ERROR| --vmnet-gateway="+c.refused+"; choose an address in 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or 100.64.0.0/10, or allow this one by --vmnet-gateway-any\n", r.stderr)
				assert.Empty(t, r.stdout)
			}
			old := parse(t, Old, words(c.argv+" /s"))
			require.NotNil(t, old.cfg, "the old name: %s", old.stderr)
			any := parse(t, New, append([]string{"socket_vmnet2"}, strings.Fields(c.argv+" --vmnet-gateway-any /s")...))
			require.NotNil(t, any.cfg, any.stderr)
			assert.Equal(t, old.cfg, any.cfg)
		})
	}
	r := parse(t, New, strings.Fields("socket_vmnet2 --vmnet-gateway-any /s"))
	assert.Contains(t, r.stderr, "ERROR| --vmnet-gateway-any requires --vmnet-gateway=IP"+seeHelp+"\n")
	r = parse(t, Old, words("--vmnet-gateway-any /s"))
	assert.Contains(t, r.stderr, "unknown option --vmnet-gateway-any")
}

func TestIdentifiers(t *testing.T) {
	want := [16]byte{0x0E, 0x21, 0xC1, 0xD4, 0x43, 0xD9, 0x43, 0x63, 0xB7, 0x67, 0xA6, 0x48, 0x8D, 0x25, 0xC9, 0x3E}
	r := parse(t, Old, words("--vmnet-mode=host --vmnet-interface-id=0E21C1D4-43D9-4363-B767-A6488D25C93E --vmnet-network-identifier=0e21c1d4-43d9-4363-b767-a6488d25c93e --vmnet-nat66-prefix=FD00:1234:: /s"))
	require.NotNil(t, r.cfg, r.stderr)
	assert.Equal(t, want, r.cfg.InterfaceID)
	assert.Equal(t, want, r.cfg.NetworkID)
	assert.Equal(t, netip.MustParsePrefix("fd00:1234::/64"), r.cfg.NAT66Prefix)

	const null = "00000000-0000-0000-0000-000000000000"
	r = parse(t, Old, words("--vmnet-mode=host --vmnet-interface-id="+null+" --vmnet-network-identifier="+null+" /s"))
	require.NotNil(t, r.cfg, r.stderr)
	assert.Zero(t, r.cfg.InterfaceID, "the null UUID is none")
	assert.Zero(t, r.cfg.NetworkID)

	for _, bad := range []string{
		"", "0E21C1D443D94363B767A6488D25C93E", "{0E21C1D4-43D9-4363-B767-A6488D25C93E}", "0E21C1D4-43D9-4363-B767-A6488D25C93",
		"0E21C1D4-43D9-4363-B767-A6488D25C93EA", "0E21C1D4-43D9-4363-B767-A6488D25C93G", "0E21C1D4143D9-4363-B767-A6488D25C93E",
		"0E21C1D4--3D9-4363-B767-A6488D25C93E",
	} {
		r = parse(t, Old, []string{"socket_vmnet", "--vmnet-interface-id=" + bad, "/s"})
		assert.Equal(t, `ERROR| Failed to parse UUID "`+bad+"\"\n", r.stderr)
	}
}

// TestNameDecides: a copy under another name says that the name decides what it is, where only the new program has what is asked for.
func TestNameDecides(t *testing.T) {
	for line, want := range map[string]string{ // the option or command
		"/opt/svm2 --dns-record=a=10.0.0.1 /s": "--dns-record", "svm2 --debug --isolate /s": "--isolate", "svm2 status --json": "status",
		"svm2 status": "status", "svm2 --pidfile=/p /s": "", "svm2 --nothing-has-this /s": "", "svm2 /s status": "", "svm2": "",
		"socket_vmnet --isolate /s": "", "/opt/socket_vmnet_client status": "", "socket_vmnet2 --isolate /s": "", " --isolate": "",
	} {
		argv := strings.Split(line, " ")
		var out, errs strings.Builder
		Parse(PersonalityOf(argv[0]), argv, IO{
			Stdout: &out, Stderr: &errs, LookupEnv: func(string) (string, bool) { return "", false }, Commands: []Item{{Name: "status"}},
		})
		if want != "" {
			want = "WARN | this copy is called svm2, so it behaves as socket_vmnet; call it socket_vmnet2 for " + want + "\n"
			assert.True(t, strings.HasPrefix(errs.String(), want), "%s: %s", line, errs.String())
		} else {
			assert.NotContains(t, errs.String(), "behaves as", line)
		}
		assert.NotContains(t, out.String(), "behaves as", line)
	}
}

func TestPersonalityOf(t *testing.T) {
	for argv0, want := range map[string]Personality{
		"socket_vmnet": Old, "/opt/socket_vmnet/bin/socket_vmnet": Old, "socket_vmnet_client": Old, "": Old, "wrapper": Old,
		"/opt/socket_vmnet2/bin/socket_vmnet": Old, "Socket_vmnet2": Old,
		"socket_vmnet2": New, "/opt/socket_vmnet/bin/socket_vmnet2": New, "./socket_vmnet2-v0.0.0": New, "socket_vmnet2.test": New,
	} {
		assert.Equal(t, want, PersonalityOf(argv0), argv0)
	}
}
