// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"net"
	"net/netip"
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

func TestNetworkOptions(t *testing.T) {
	for _, c := range []struct {
		name, argv string
		set        func(*Config)
	}{
		{"none", "", func(*Config) {}},
		{"API auto", "--vmnet-api=auto", func(*Config) {}},
		{"API network", "--vmnet-api=network", func(c *Config) { c.VmnetAPI = "network" }},
		{"API interface, prefix", "--vmnet-a interface", func(c *Config) { c.VmnetAPI = "interface" }},
		{"last API wins", "--vmnet-api=network --vmnet-api=auto", func(*Config) {}},
		{"an interface each", "--vmnet-interfaces=client", func(*Config) {}},
		{"one interface", "--vmnet-interfaces=one", func(c *Config) { c.VmnetInterfaces = InterfacesOne }},
		{"exact name of the old option", "--vmnet-interface=one", func(c *Config) { c.Interface = "one" }},
		{"no NAT44", "--vmnet-disable-nat44", func(c *Config) { c.DisableNAT44 = true }},
		{"no NAT66", "--vmnet-disable-nat66", func(c *Config) { c.DisableNAT66 = true }},
		{"no DNS", "--vmnet-disable-dns-proxy", func(c *Config) { c.DisableDNSProxy = true }},
		{"no RA", "--vmnet-disable-ra", func(c *Config) { c.DisableRA = true }},
		{"smallest MTU", "--vmnet-mtu=1280", func(c *Config) { c.MTU = 1280 }},
		{"default MTU", "--vmnet-mtu=1500", func(c *Config) { c.MTU = 1500 }},
		{"largest MTU", "--vmnet-mtu=16384", func(c *Config) { c.MTU = 16384 }},
		{"a way to the host's loopback", "--host-loopback=on", func(c *Config) { c.HostLoopback = "on" }},
		{"last host loopback wins", "--host-loopback=on --host-loopback off", func(c *Config) { c.HostLoopback = "off" }},
		{"isolate", "--isolate", func(c *Config) { c.Isolate = true }},
		{"no forged addresses", "--anti-spoof", func(c *Config) { c.AntiSpoof = true }},
		{"offload", "--offload", func(c *Config) { c.Offload = true }},
		{"reservations", "--vmnet-reserve=52:54:00:12:34:56=192.168.105.10 --vmnet-reserve 02:AB:cd:00:00:01=192.168.105.254", func(c *Config) {
			c.Reservations = []network.Reservation{
				reservation("52:54:00:12:34:56", "192.168.105.10"), reservation("02:ab:cd:00:00:01", "192.168.105.254"),
			}
		}},
		{"forwards", "--vmnet-forward=tcp:1=192.168.105.2:65535 --vmnet-forward=udp:1=192.168.105.2:65535 --vmnet-forward tcp:65535=192.168.105.3:1", func(c *Config) {
			c.Forwards = []network.Forward{
				forward("tcp", 1, "192.168.105.2:65535"), forward("udp", 1, "192.168.105.2:65535"), forward("tcp", 65535, "192.168.105.3:1"),
			}
		}},
		{"several ports to one guest's", "--vmnet-forward=tcp:80=192.168.105.2:80 --vmnet-forward=tcp:81=192.168.105.2:80", func(c *Config) {
			c.Forwards = []network.Forward{forward("tcp", 80, "192.168.105.2:80"), forward("tcp", 81, "192.168.105.2:80")}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parse(t, New, newWords(c.argv))
			require.NotNil(t, r.cfg, r.stderr)
			want := addressed("/s", "192.168.105.1", "192.168.105.0/24", "192.168.105.254", c.set)
			assert.Equal(t, want, r.cfg)
			assert.Empty(t, r.stdout+r.stderr)
		})
	}
	t.Run("forward into a network that is not known yet", func(t *testing.T) {
		r := parse(t, New, words("--vmnet-mode=host --vmnet-forward=tcp:80=10.1.2.3:80 /s"))
		require.NotNil(t, r.cfg, r.stderr)
		assert.Equal(t, []network.Forward{forward("tcp", 80, "10.1.2.3:80")}, r.cfg.Forwards)
	})
}

// TestBadNetworkValues are values that no network could have meant. The error comes before a --help behind it.
func TestBadNetworkValues(t *testing.T) {
	for _, c := range []struct{ arg, why string }{
		{"--vmnet-api=", "use auto, network or interface"},
		{"--vmnet-api=Auto", "use auto, network or interface"},
		{"--vmnet-api=auto ", "use auto, network or interface"},
		{"--vmnet-interfaces=", "use client or one"},
		{"--vmnet-interfaces=2", "use client or one"},

		{"--vmnet-mtu=", "1280 to 16384"},
		{"--vmnet-mtu=0", "1280 to 16384"},
		{"--vmnet-mtu=1279", "1280 to 16384"},
		{"--vmnet-mtu=16385", "1280 to 16384"},
		{"--vmnet-mtu=01500", "1280 to 16384"},
		{"--vmnet-mtu=+1500", "1280 to 16384"},
		{"--vmnet-mtu=-1500", "1280 to 16384"},
		{"--vmnet-mtu=1500 ", "1280 to 16384"},
		{"--vmnet-mtu=1_500", "1280 to 16384"},
		{"--vmnet-mtu=0x5dc", "1280 to 16384"},
		{"--vmnet-mtu=2K", "1280 to 16384"},
		{"--vmnet-mtu=4294968796", "1280 to 16384"},           // 1<<32 + 1500
		{"--vmnet-mtu=18446744073709553116", "1280 to 16384"}, // 1<<64 + 1500

		{"--vmnet-reserve=", "not of the form MAC=IP"},
		{"--vmnet-reserve=52:54:00:12:34:56", "not of the form MAC=IP"},
		{"--vmnet-reserve==192.168.105.9", `"" is no MAC address`},
		{"--vmnet-reserve=52:54:00:12:34=192.168.105.9", `"52:54:00:12:34" is no MAC address`},
		{"--vmnet-reserve=52:54:0:12:34:56=192.168.105.9", "is no MAC address"},
		{"--vmnet-reserve=52-54-00-12-34-56=192.168.105.9", "is no MAC address"},
		{"--vmnet-reserve=5254.0012.3456=192.168.105.9", "is no MAC address"},
		{"--vmnet-reserve=52:54:00:12:34:5g=192.168.105.9", "is no MAC address"},
		{"--vmnet-reserve=52:54:00:12:34:56:78:9a=192.168.105.9", "is no MAC address"},
		{"--vmnet-reserve=00:00:00:00:00:00=192.168.105.9", "is no MAC address of a guest"},
		{"--vmnet-reserve=01:00:5e:00:00:01=192.168.105.9", "is no MAC address of a guest"},
		{"--vmnet-reserve=ff:ff:ff:ff:ff:ff=192.168.105.9", "is no MAC address of a guest"},
		{"--vmnet-reserve=52:54:00:12:34:56=", `"" is no IPv4 address of a guest`},
		{"--vmnet-reserve=52:54:00:12:34:56=192.168.105.009", "is no IPv4 address of a guest"},
		{"--vmnet-reserve=52:54:00:12:34:56=192.168.27137", "is no IPv4 address of a guest"},
		{"--vmnet-reserve=52:54:00:12:34:56=192.168.105.9/24", "is no IPv4 address of a guest"},
		{"--vmnet-reserve=52:54:00:12:34:56=192.168.105.256", "is no IPv4 address of a guest"},
		{"--vmnet-reserve=52:54:00:12:34:56=fd00::1", "is no IPv4 address of a guest"},
		{"--vmnet-reserve=52:54:00:12:34:56=::ffff:192.168.105.9", "is no IPv4 address of a guest"},
		{"--vmnet-reserve=52:54:00:12:34:56=0.0.0.0", "is no IPv4 address of a guest"},
		{"--vmnet-reserve=52:54:00:12:34:56=127.0.0.1", "is no IPv4 address of a guest"},
		{"--vmnet-reserve=52:54:00:12:34:56=224.0.0.1", "is no IPv4 address of a guest"},
		{"--vmnet-reserve=52:54:00:12:34:56=255.255.255.255", "is no IPv4 address of a guest"},

		{"--vmnet-forward=", "not of the form PROTO:PORT=IP:PORT"},
		{"--vmnet-forward=tcp:80", "not of the form PROTO:PORT=IP:PORT"},
		{"--vmnet-forward=tcp=192.168.105.2:80", "not of the form PROTO:PORT=IP:PORT"},
		{"--vmnet-forward=tcp:80=192.168.105.2", "not of the form PROTO:PORT=IP:PORT"},
		{"--vmnet-forward=8080:80=192.168.105.2:80", `"8080" is no protocol`},
		{"--vmnet-forward=TCP:80=192.168.105.2:80", `"TCP" is no protocol`},
		{"--vmnet-forward=sctp:80=192.168.105.2:80", `"sctp" is no protocol`},
		{"--vmnet-forward=:80=192.168.105.2:80", `"" is no protocol`},
		{"--vmnet-forward=tcp:=192.168.105.2:80", `"" is no port`},
		{"--vmnet-forward=tcp:0=192.168.105.2:80", `"0" is no port`},
		{"--vmnet-forward=tcp:65536=192.168.105.2:80", `"65536" is no port`},
		{"--vmnet-forward=tcp:65616=192.168.105.2:80", `"65616" is no port`}, // 1<<16 + 80
		{"--vmnet-forward=tcp:080=192.168.105.2:80", `"080" is no port`},
		{"--vmnet-forward=tcp:http=192.168.105.2:80", `"http" is no port`},
		{"--vmnet-forward=tcp:127.0.0.1:80=192.168.105.2:80", `"127.0.0.1:80" is no port`},
		{"--vmnet-forward=tcp:80=192.168.105.2:0", `"0" is no port`},
		{"--vmnet-forward=tcp:80=192.168.105.2:", `"" is no port`},
		{"--vmnet-forward=tcp:80=192.168.105.2:99999", `"99999" is no port`},
		{"--vmnet-forward=tcp:80=192.168.105.2:80=x", `"80=x" is no port`},
		{"--vmnet-forward=tcp:80=:80", `"" is no IPv4 address of a guest`},
		{"--vmnet-forward=tcp:80=guest:80", `"guest" is no IPv4 address of a guest`},
		{"--vmnet-forward=tcp:80=127.0.0.1:80", `"127.0.0.1" is no IPv4 address of a guest`},
		{"--vmnet-forward=tcp:80=[fd00::1]:80", `"[fd00" is no IPv4 address of a guest`},
	} {
		t.Run(c.arg, func(t *testing.T) {
			r := parse(t, New, []string{"socket_vmnet2", c.arg, "-h"})
			assert.Nil(t, r.cfg)
			assert.Equal(t, 1, r.code)
			assert.True(t, strings.HasPrefix(r.stderr, "ERROR| "+c.arg), r.stderr)
			assert.Contains(t, r.stderr, c.why)
			assert.Equal(t, 1, strings.Count(r.stderr, "\n"))
			assert.True(t, strings.HasPrefix(r.stdout, "Usage: socket_vmnet2 "))
		})
	}
	for _, flag := range []string{
		"--vmnet-disable-nat44", "--vmnet-disable-nat66", "--vmnet-disable-dns-proxy", "--vmnet-disable-ra", "--isolate", "--offload",
		"--list-interfaces",
	} {
		r := parse(t, New, []string{"socket_vmnet2", flag + "=true", "/s"})
		assert.Equal(t, "ERROR| option "+flag+" takes no argument\n", r.stderr)
		assert.Equal(t, 1, r.code)
	}
}

// TestNetworkConflicts are values that are good each for itself.
func TestNetworkConflicts(t *testing.T) {
	const (
		gw      = "--vmnet-gateway=192.168.105.1 "
		bridged = "--vmnet-mode=bridged --vmnet-interface=en0 "
		reserve = "--vmnet-reserve=52:54:00:12:34:56="
		forward = "--vmnet-forward=tcp:80="
	)
	for _, c := range []struct{ name, argv, stderr string }{
		{"reserve without gateway", "--vmnet-mode=host " + reserve + "192.168.105.9", "--vmnet-reserve=MAC=IP requires --vmnet-gateway=IP"},
		{"reserve without DHCP", gw + "--vmnet-disable-dhcp " + reserve + "192.168.105.9", "--vmnet-reserve=MAC=IP needs the DHCP server, which is off"},
		{"reserve in an isolated network", gw + "--vmnet-mode=host --vmnet-network-identifier=" + goodUUID + " " + reserve + "192.168.105.9", "--vmnet-reserve=MAC=IP needs the DHCP server, which is off"},
		{"reserve outside", gw + reserve + "192.168.106.9", reserve + "192.168.106.9: 192.168.106.9 is not in the network 192.168.105.0/24"},
		{"reserve outside a small network", gw + "--vmnet-mask=255.255.255.128 " + reserve + "192.168.105.200", reserve + "192.168.105.200: 192.168.105.200 is not in the network 192.168.105.0/25"},
		{"reserve the gateway", gw + reserve + "192.168.105.1", reserve + "192.168.105.1: 192.168.105.1 is the gateway"},
		{"reserve the network", gw + reserve + "192.168.105.0", reserve + "192.168.105.0: 192.168.105.0 is the network address of 192.168.105.0/24"},
		{"reserve broadcast", gw + reserve + "192.168.105.255", reserve + "192.168.105.255: 192.168.105.255 is the broadcast address of 192.168.105.0/24"},
		{"reserve twice for one", gw + reserve + "192.168.105.9 " + reserve + "192.168.105.10", reserve + "192.168.105.10: 52:54:00:12:34:56 has a reserved address already, 192.168.105.9"},
		{"reserve for two", gw + reserve + "192.168.105.9 --vmnet-reserve=52:54:00:12:34:57=192.168.105.9", "--vmnet-reserve=52:54:00:12:34:57=192.168.105.9: 192.168.105.9 is reserved for 52:54:00:12:34:56 already"},
		{"forward outside", gw + forward + "192.168.106.9:80", forward + "192.168.106.9:80: 192.168.106.9 is not in the network 192.168.105.0/24"},
		{"forward to the gateway", gw + forward + "192.168.105.1:80", forward + "192.168.105.1:80: 192.168.105.1 is the gateway"},
		{"forward to all", gw + forward + "192.168.105.255:80", forward + "192.168.105.255:80: 192.168.105.255 is the broadcast address of 192.168.105.0/24"},
		{"forward twice", gw + forward + "192.168.105.9:80 " + forward + "192.168.105.10:81", forward + "192.168.105.10:81: tcp port 80 is forwarded already, to 192.168.105.9:80"},
		{"the same forward twice", gw + forward + "192.168.105.9:80 " + forward + "192.168.105.9:80", forward + "192.168.105.9:80: tcp port 80 is forwarded already, to 192.168.105.9:80"},
		{"DNS record without DNS", gw + "--vmnet-disable-dns-proxy --dns-record=a=10.0.0.1", "--dns-record=NAME=IP needs the DNS server, which --vmnet-disable-dns-proxy turns off"},
		{"bridged, NAT44", bridged + "--vmnet-disable-nat44", `vmnet mode "bridged" conflicts with --vmnet-disable-nat44`},
		{"bridged, NAT66", bridged + "--vmnet-disable-nat66", `vmnet mode "bridged" conflicts with --vmnet-disable-nat66`},
		{"bridged, DNS", bridged + "--vmnet-disable-dns-proxy", `vmnet mode "bridged" conflicts with --vmnet-disable-dns-proxy`},
		{"bridged, RA", bridged + "--vmnet-disable-ra", `vmnet mode "bridged" conflicts with --vmnet-disable-ra`},
		{"bridged, MTU", bridged + "--vmnet-mtu=1500", `vmnet mode "bridged" conflicts with --vmnet-mtu`},
		{"bridged, reserve", bridged + reserve + "192.168.105.9", `vmnet mode "bridged" conflicts with --vmnet-reserve`},
		{"bridged, forward", bridged + forward + "192.168.105.9:80", `vmnet mode "bridged" conflicts with --vmnet-forward`},
		{"bridged, isolate", bridged + "--isolate", `vmnet mode "bridged" conflicts with --isolate`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parse(t, New, words(c.argv+" /s"))
			assert.Nil(t, r.cfg)
			assert.Equal(t, 1, r.code)
			assert.Equal(t, "ERROR| "+c.stderr+"\n", r.stderr)
			assert.True(t, strings.HasPrefix(r.stdout, "Usage: "))
		})
	}
	t.Run("offload works in bridged mode", func(t *testing.T) {
		r := parse(t, New, words(bridged+"--offload --vmnet-api=interface --vmnet-interfaces=one /s"))
		require.NotNil(t, r.cfg, r.stderr)
		assert.True(t, r.cfg.Offload)
	})
}

func TestListInterfaces(t *testing.T) {
	for _, c := range []struct{ name, argv, socket string }{
		{"alone", "--list-interfaces", ""},
		{"prefix", "--list", ""},
		{"with a socket", "/s --list-interfaces", "/s"},
		{"with what would not start", "--list-interfaces --vmnet-mode=bridged --isolate --vmnet-mask=x", ""},
		{"end of options", "--list-interfaces --", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parse(t, New, words(c.argv))
			require.NotNil(t, r.cfg, r.stderr)
			assert.True(t, r.cfg.ListInterfaces)
			assert.Equal(t, c.socket, r.cfg.SocketPath)
			assert.Empty(t, r.stdout+r.stderr)
		})
	}
	for _, c := range []struct{ name, argv, stdout, stderr string }{
		{"two operands", "--list-interfaces /s /t", "Usage: ", ""},
		{"unknown option", "--list-interfaces --bogus", "Usage: ", "ERROR| unknown option --bogus\n"},
		{"bad value", "--list-interfaces --vmnet-api=x", "Usage: ", "ERROR| --vmnet-api=x is unknown: use auto, network or interface\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parse(t, New, words(c.argv))
			assert.Nil(t, r.cfg)
			assert.Equal(t, 1, r.code)
			assert.True(t, strings.HasPrefix(r.stdout, c.stdout))
			assert.Equal(t, c.stderr, r.stderr)
		})
	}
}

// TestOldProgramKnowsNone: every new name is unknown to it, and what was an unambiguous prefix still is.
func TestOldProgramKnowsNone(t *testing.T) {
	for _, f := range Flags(New)[len(Flags(Old)):] {
		name := f.Names()[0]
		r := parse(t, Old, words("--"+name+"=x /s"))
		assert.Nil(t, r.cfg)
		assert.Equal(t, "ERROR| unknown option --"+name+"\n", r.stderr, name)
	}
	for prefix, want := range map[string]func(*Config){
		"--vmnet-disable":      noDHCP,
		"--vmnet-interfac=en0": nil, // ambiguous with --vmnet-interface-id as ever
		"--vmnet-interface-=" + goodUUID: func(c *Config) {
			c.InterfaceID = [16]byte{0x0E, 0x21, 0xC1, 0xD4, 0x43, 0xD9, 0x43, 0x63, 0xB7, 0x67, 0xA6, 0x48, 0x8D, 0x25, 0xC9, 0x3E}
		},
	} {
		r := parse(t, Old, words("--vmnet-gateway=192.168.105.1 "+prefix+" /s"))
		if want == nil {
			assert.Nil(t, r.cfg, prefix)
			continue
		}
		assert.Equal(t, addressed("/s", "192.168.105.1", "192.168.105.0/24", "192.168.105.254", want), r.cfg, prefix)
	}
}

// FuzzReservation: what is accepted reads back as the same, and is an address that one guest can have.
func FuzzReservation(f *testing.F) {
	for _, seed := range []string{
		"52:54:00:12:34:56=192.168.105.10", "02:AB:cd:00:00:01=10.0.0.1", "=", "a=b", "52:54:00:12:34:56=", "::::::::::::::::=1.2.3.4",
		"ff:ff:ff:ff:ff:ff=255.255.255.255", "52:54:00:12:34:56=1.2.3.4=5",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, v string) {
		var s settings
		if err := s.addReservation(v); err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "--vmnet-reserve="+v))
			require.Empty(t, s.Reservations)
			return
		}
		require.Len(t, s.Reservations, 1)
		r := s.Reservations[0]
		require.Equal(t, strings.ToLower(v), r.MAC.String()+"="+r.Addr.String())
		require.Len(t, r.MAC, 6)
		require.Zero(t, r.MAC[0]&1)
		require.True(t, r.Addr.Is4() && r.Addr.IsGlobalUnicast() || r.Addr.IsLinkLocalUnicast(), v)
		require.Error(t, s.addReservation(v), "a second time")
	})
}

// FuzzForward: what is accepted reads back as the same.
func FuzzForward(f *testing.F) {
	for _, seed := range []string{
		"tcp:8080=192.168.105.5:80", "udp:53=10.0.0.1:53", "tcp:1=1.2.3.4:65535", ":=:", "tcp::=::", "tcp:1=1.2.3.4:0", "tcp:01=1.2.3.4:1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, v string) {
		var s settings
		if err := s.addForward(v); err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "--vmnet-forward="+v))
			require.Empty(t, s.Forwards)
			return
		}
		require.Len(t, s.Forwards, 1)
		fw := s.Forwards[0]
		require.Equal(t, v, fw.Proto+":"+netip.AddrPortFrom(fw.Guest.Addr(), fw.HostPort).String()[len(fw.Guest.Addr().String())+1:]+"="+fw.Guest.String())
		require.NotZero(t, fw.HostPort)
		require.NotZero(t, fw.Guest.Port())
		require.Error(t, s.addForward(v), "a second time")
	})
}
