// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/user"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// newWords is a command line of the new program with a gateway and a socket.
func newWords(args string) []string {
	return strings.Fields("socket_vmnet2 --vmnet-gateway=192.168.105.1 " + args + " /s")
}

func reservation(mac, ip string) network.Reservation {
	hw, err := net.ParseMAC(mac)
	if err != nil {
		panic(err)
	}
	return network.Reservation{MAC: hw, Addr: netip.MustParseAddr(ip)}
}

func forward(proto string, port uint16, guest string) network.Forward {
	return network.Forward{Proto: proto, HostPort: port, Guest: netip.MustParseAddrPort(guest)}
}

func metrics(addr string) given {
	return func(c *Config) { c.MetricsListen = netip.MustParseAddrPort(addr) }
}

func uids(u ...uint32) given { return func(c *Config) { c.AllowUIDs = u } }

// longestDir is the longest runtime directory.
var longestDir = "/" + strings.Repeat("x", MaxSocketPath-len(LongestRuntimePath)-1)

// TestOptions: what each option of the new program changes.
func TestOptions(t *testing.T) {
	me, err := user.Current()
	require.NoError(t, err)
	mine, err := strconv.ParseUint(me.Uid, 10, 32)
	require.NoError(t, err)
	for _, c := range []struct {
		argv string
		set  given
	}{
		{"", func(*Config) {}},
		{"--backend=usernet", func(c *Config) { c.Backend = backendUsernet }},
		{"--back=vmnet", func(c *Config) { c.Backend = BackendVmnet }},
		{"--gateway-user me", func(c *Config) { c.GatewayUser = "me" }},
		{"--socket-user me", func(c *Config) { c.SocketUser = "me" }},
		{"--socket-mode=0700", func(c *Config) { c.SocketMode = 0o700 }},
		{"--queue-size=64K", func(c *Config) { c.QueueSize = 65536 }},
		{"--queue-size=8M", func(c *Config) { c.QueueSize = 8 << 20 }},
		{"--queue-size=3m", func(c *Config) { c.QueueSize = 3 << 20 }},
		{"--state-dir=/var/db/x", func(c *Config) { c.StateDir = "/var/db/x" }},
		{"--dns-record=Db.Internal.=10.0.0.9 --dns-record a_b.x=10.0.0.8", func(c *Config) {
			c.DNSRecords = []dnsRecord{{"db.internal", netip.MustParseAddr("10.0.0.9")}, {"a_b.x", netip.MustParseAddr("10.0.0.8")}}
		}},
		{"--runtime-dir=/r --runtime-dir none", func(c *Config) { c.RuntimeDir = "none" }},
		{"--runtime-dir=" + longestDir, func(c *Config) { c.RuntimeDir = longestDir }},
		{"--allow-uid=501 --allow-uid 0 --allow=501", uids(501, 0)},
		{"--allow-uid=4294967294", uids(4294967294)},
		{"--allow-uid=" + me.Username + " --allow-uid=" + me.Uid, uids(uint32(mine))},
		{"--metrics-listen=127.0.0.1:9105", metrics("127.0.0.1:9105")},
		{"--metrics-listen=0.0.0.0:1 --metrics-listen localhost:0", metrics("127.0.0.1:0")},
		{"--metrics-listen=[::ffff:127.0.0.1]:9105", metrics("127.0.0.1:9105")},
		{"--metrics-anywhere --metrics-listen=0.0.0.0:9105", func(c *Config) { metrics("0.0.0.0:9105")(c); c.MetricsAnywhere = true }},
		{"--log-format=json --log-level=warn", func(c *Config) { c.LogFormat, c.LogLevel = logJSON, "warn" }},
		{"--vmnet-api=network --vmnet-a interface", func(c *Config) { c.VmnetAPI = "interface" }},
		{"--vmnet-interfaces=one", func(c *Config) { c.VmnetInterfaces = InterfacesOne }},
		{"--vmnet-interface=one", func(c *Config) { c.Interface = "one" }},
		{"--vmnet-disable-nat44", func(c *Config) { c.DisableNAT44 = true }},
		{"--vmnet-disable-nat66", func(c *Config) { c.DisableNAT66 = true }},
		{"--vmnet-disable-dns-proxy", func(c *Config) { c.DisableDNSProxy = true }},
		{"--vmnet-disable-ra", func(c *Config) { c.DisableRA = true }},
		{"--vmnet-mtu=16384", func(c *Config) { c.MTU = 16384 }},
		{"--host-loopback=1 --host-loopback off", func(c *Config) { c.HostLoopback = "off" }},
		{"--host-loopback=80,8080", func(c *Config) { c.HostLoopback, c.LoopbackPorts = "80,8080", []uint16{80, 8080} }},
		{"--isolate", func(c *Config) { c.Isolate = true }},
		{"--anti-spoof", func(c *Config) { c.AntiSpoof = true }},
		{"--offload", func(c *Config) { c.Offload = true }},
		{"--vmnet-reserve=52:54:00:12:34:56=192.168.105.10 --vmnet-reserve 02:AB:cd:00:00:01=192.168.105.254", func(c *Config) {
			c.Reservations = []network.Reservation{reservation("52:54:00:12:34:56", "192.168.105.10"), reservation("02:ab:cd:00:00:01", "192.168.105.254")}
		}},
		{"--vmnet-forward=tcp:1=192.168.105.2:80 --vmnet-forward=udp:1=192.168.105.2:80 --vmnet-forward tcp:10.0.0.1:1=192.168.105.2:80", func(c *Config) {
			c.Forwards = []network.Forward{
				forward("tcp", 1, "192.168.105.2:80"), forward("udp", 1, "192.168.105.2:80"),
				{Proto: "tcp", HostIP: netip.MustParseAddr("10.0.0.1"), HostPort: 1, Guest: netip.MustParseAddrPort("192.168.105.2:80")},
			}
		}},
		{"--list-interfaces", func(c *Config) { c.ListInterfaces = true }},
	} {
		t.Run(c.argv, func(t *testing.T) {
			r := parse(t, New, newWords(c.argv))
			require.NotNil(t, r.cfg, r.stderr)
			want := addressed("/s", "192.168.105.1", "192.168.105.0/24", "192.168.105.254", c.set)
			if want.ListInterfaces { // nothing else is looked at
				want.Gateway, want.Subnet, want.DHCPEnd = netip.Addr{}, netip.Prefix{}, netip.Addr{}
			}
			assert.Equal(t, want, r.cfg)
			assert.Empty(t, r.stdout+r.stderr)
		})
	}
	for _, argv := range []string{"--list", "--list-interfaces --vmnet-mode=bridged --isolate --vmnet-mask=x", "--list-interfaces --"} {
		r := parse(t, New, words(argv))
		assert.NotNil(t, r.cfg, "%s needs no SOCKET: %s", argv, r.stderr)
	}
	r := parse(t, New, words("--vmnet-mode=host --vmnet-forward=tcp:80=10.1.2.3:80 /s"))
	require.NotNil(t, r.cfg, r.stderr)
	assert.Equal(t, []network.Forward{forward("tcp", 80, "10.1.2.3:80")}, r.cfg.Forwards, "into a network that is not known yet")
	r = parse(t, New, words("--log-level=error /s"), "DEBUG")
	assert.Equal(t, "debug", r.cfg.OpenLog(io.Discard).Level(), "DEBUG goes before the option")
}

// TestBadOptions are values that nothing could have meant, where the error comes before a --help behind them, and, where SOCKET is the
// last word, values that are good each for itself.
func TestBadOptions(t *testing.T) {
	const (
		bridged = "--vmnet-mode=bridged --vmnet-interface=en0 "
		gw      = "--vmnet-gateway=192.168.105.1 "
		reserve = "--vmnet-reserve=52:54:00:12:34:56="
		forward = "--vmnet-forward=tcp:80="
		port    = "is not a port from 1 to 65535"
		mac     = "is not the MAC address of a guest, such as 52:54:00:12:34:56"
		guest   = "is not the IPv4 address of a guest"
		name    = "is not a host name, whose labels have at most 63 bytes of letters, digits and hyphens, and all of it 253"
		mtu     = ": use a number from 1280 to 16384"
		queue   = ": use a size from 64K to 8M"
		mode    = ": use an octal mode such as 0770, at most 0777"
		away    = " can be read from other hosts, without a password; use an address of this host alone, such as 127.0.0.1, or allow it by --metrics-anywhere"
		noAddr  = ": use an address with a port, such as 127.0.0.1:9105"
		order   = ": use MAC=IP, such as 52:54:00:12:34:56=192.168.105.9"
		forms   = ": use PROTO:[HOSTIP:]PORT=IP:PORT, such as tcp:8080=192.168.105.5:80"
	)
	for _, c := range []struct{ argv, want string }{ // behind "invalid" and the option, if want begins with a colon
		{"--backend=tap", ": use auto, usernet or vmnet"},
		{"--log-format=xml", ": use plain, text or json"},
		{"--log-level=INFO", ": use debug, info, warn or error"},
		{"--socket-user=", "--socket-user is empty: give the name of a user"},
		{"--socket-mode=", mode},
		{"--socket-mode=1777", mode},
		{"--queue-size=", queue},
		{"--queue-size=65535", queue},
		{"--queue-size=8193K", queue},
		{"--queue-size=2147483647M", queue},
		{"--max-clients=4097", ": use a number from 1 to 4096"},
		{"--dns-record=a", ": use NAME=IP, such as db.internal=192.168.105.9"},
		{"--dns-record==1.2.3.4", `: "" ` + name},
		{"--dns-record=a..b=1.2.3.4", `: "a..b" ` + name},
		{"--dns-record=a=::1", `: "::1" is not an IPv4 address`},
		{"--runtime-dir=", `--runtime-dir is empty: give a directory, or "none"`},
		{"--runtime-dir=" + longestDir + "y", fmt.Sprintf("--runtime-dir="+longestDir+"y is too long: the path of dgram/sock below it has %d bytes, that of a socket %d at most", MaxSocketPath+1, MaxSocketPath)},
		{"--allow-uid=4294967295", ": use a number from 0 to 4294967294, or a user's name"},
		{"--allow-uid=no-such-user", ": there is no user of that name"},
		{"--metrics-listen=127.0.0.1", noAddr},
		{"--metrics-listen=[fe80::1%en0]:9105", noAddr},
		{"--vmnet-mtu=1279", mtu},
		{"--vmnet-mtu=16385", mtu},
		{"--vmnet-mtu=01500", mtu},
		{"--vmnet-mtu=4294968796", mtu}, // 1<<32 + 1500
		{"--vmnet-reserve=", order},
		{"--vmnet-reserve==192.168.105.9", `: "" ` + mac},
		{"--vmnet-reserve=52-54-00-12-34-56=192.168.105.9", `: "52-54-00-12-34-56" ` + mac},
		{"--vmnet-reserve=00:00:00:00:00:00=192.168.105.9", `: "00:00:00:00:00:00" ` + mac},
		{"--vmnet-reserve=01:00:5e:00:00:01=192.168.105.9", `: "01:00:5e:00:00:01" ` + mac},
		{"--vmnet-reserve=192.168.105.9=52:54:00:12:34:56", ": the order is MAC=IP, so use 52:54:00:12:34:56=192.168.105.9"},
		{reserve + "0.0.0.0", `: "0.0.0.0" ` + guest},
		{reserve + "224.0.0.1", `: "224.0.0.1" ` + guest},
		{"--vmnet-forward=", forms},
		{"--host-loopback=80,", ": use on, off, or ports such as 8080,9000"},
		{"--vmnet-forward=sctp:80=192.168.105.2:80", `: "sctp" cannot be forwarded, only tcp and udp`},
		{"--vmnet-forward=tcp:65536=192.168.105.2:80", `: "65536" ` + port},
		{"--vmnet-forward=tcp:::1:80=192.168.105.2:80", `: "" is not an IPv4 address of this host`},
		{"--vmnet-forward=tcp:host:80=192.168.105.2:80", `: "host" is not an IPv4 address of this host`},
		{"--vmnet-forward=tcp:127.0.0.1:x=192.168.105.2:80", `: "x" ` + port},
		{forward + "192.168.105.2:0", `: "0" ` + port},
		{forward + "guest:80", `: "guest" ` + guest},

		{"--metrics-listen=0.0.0.0:9105 /s", "--metrics-listen=0.0.0.0:9105" + away},
		{"--metrics-listen=[::ffff:10.0.0.1]:1 /s", "--metrics-listen=10.0.0.1:1" + away},
		{"--metrics-anywhere /s", "--metrics-anywhere needs --metrics-listen=ADDR:PORT"},
		{reserve + "192.168.105.9 /s", "--vmnet-reserve=MAC=IP requires --vmnet-gateway=IP"},
		{gw + "--vmnet-disable-dhcp " + reserve + "192.168.105.9 /s", "--vmnet-reserve=MAC=IP needs the DHCP server, which is off"},
		{gw + "--vmnet-network-identifier=" + goodUUID + " " + reserve + "192.168.105.9 /s", "--vmnet-reserve=MAC=IP needs the DHCP server, which is off"},
		{gw + reserve + "192.168.106.9 /s", reserve + "192.168.106.9: 192.168.106.9 is not in the network 192.168.105.0/24"},
		{gw + reserve + "192.168.105.1 /s", reserve + "192.168.105.1: 192.168.105.1 is the gateway"},
		{gw + reserve + "192.168.105.9 " + reserve + "192.168.105.10 /s", "invalid " + reserve + "192.168.105.10: 52:54:00:12:34:56 has a reserved address already, 192.168.105.9"},
		{gw + reserve + "192.168.105.9 --vmnet-reserve=52:54:00:12:34:57=192.168.105.9 /s", "invalid --vmnet-reserve=52:54:00:12:34:57=192.168.105.9: 192.168.105.9 is reserved for 52:54:00:12:34:56 already"},
		{gw + forward + "192.168.106.9:80 /s", forward + "192.168.106.9:80: 192.168.106.9 is not in the network 192.168.105.0/24"},
		{gw + forward + "192.168.105.9:80 " + forward + "192.168.105.10:81 /s", "invalid " + forward + "192.168.105.10:81: tcp port 80 is forwarded already, to 192.168.105.9:80"},
		{gw + "--vmnet-disable-dns-proxy --dns-record=a=10.0.0.1 /s", "--dns-record=NAME=IP needs the DNS server, which --vmnet-disable-dns-proxy turns off"},
		{bridged + reserve + "192.168.105.9 /s", `vmnet mode "bridged" conflicts with --vmnet-reserve`},
		{bridged + "--isolate /s", `vmnet mode "bridged" conflicts with --isolate`},
	} {
		t.Run(c.argv, func(t *testing.T) {
			args, ends := strings.CutSuffix(c.argv, " /s")
			if c.want[0] == ':' {
				c.want = "invalid " + args + c.want
			}
			if ends {
				args += " --vmnet-mode=host /s"
				if strings.HasPrefix(c.argv, bridged) {
					args = c.argv
				}
			} else {
				args += " -h"
			}
			r := parse(t, New, words(args))
			assert.Nil(t, r.cfg)
			assert.Equal(t, 1, r.code)
			assert.Equal(t, "ERROR| "+c.want+seeHelp+"\n", r.stderr)
			assert.Empty(t, r.stdout)
		})
	}
}

// TestReachHostLoopback: unless guests are kept from the outside or from each other; and then as well if that was asked for.
func TestReachHostLoopback(t *testing.T) {
	for argv, want := range map[string]bool{
		"": true, "--vmnet-disable-nat44": true, "--host-loopback=off": false, "--vmnet-mode=host": false, "--isolate": false,
		"--vmnet-mode=host --host-loopback=80": true, "--isolate --vmnet-mode=host --host-loopback=on": true,
	} {
		r := parse(t, New, newWords(argv))
		require.NotNil(t, r.cfg, r.stderr)
		assert.Equal(t, want, r.cfg.ReachHostLoopback(), argv)
	}
}
