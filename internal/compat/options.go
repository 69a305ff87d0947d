// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"slices"

	"github.com/urfave/cli/v2"
)

// settings is a Config being filled. The addresses stay text until all of them are known.
type settings struct {
	Config
	given func(option string) bool

	gateway, dhcpEnd, mask, nat66 string

	gatewayAny bool // a public one is meant
	old        bool // of the old program, which has no such option and takes any
}

func newSettings(p Personality) *settings { return &settings{Config: defaultConfig(), old: p == Old} }

// buildFlags are those of a build for tests. A release has none: it loads no library but Apple's, whatever it is told.
var buildFlags = func(*settings) []cli.Flag { return nil }

// Flags are the daemon's options, in the order of its usage text.
func Flags(p Personality) []cli.Flag { return newSettings(p).flags(p) }

// flags is the table of the daemon's options, which set what is in s. Those of socket_vmnet's main branch come first, in the order of
// its usage text. A value that socket_vmnet parses in its option loop is checked when it is met, so that an error comes before a
// --help behind it. Of an option that is given twice the last one wins, unless it adds to a list.
func (s *settings) flags(p Personality) []cli.Flag {
	all := slices.Concat(
		[]cli.Flag{s.socketGroup()},
		s.upstreamNetwork(),
		[]cli.Flag{
			&cli.StringFlag{Name: "pidfile", Aliases: []string{"p"}, Usage: "`PIDFILE` file that holds the process id while the daemon is ready", Destination: &s.Pidfile},
			&cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: s.wording("print this text and end", "show this help and exit")},
			&cli.BoolFlag{Name: "version", Aliases: []string{"v"}, Usage: s.wording("print the version and end", "show the version and exit")},
		})
	if p == New {
		all = slices.Concat(all, s.ownDaemon(), s.ownNetwork(), buildFlags(s))
	}
	return all
}

// wording is how the program puts something.
func (s *settings) wording(old, text string) string {
	if s.old {
		return old
	}
	return text
}

func (s *settings) socketGroup() cli.Flag {
	return text("socket-group", "`GROUP` group that may use the socket (default: \"staff\")", &s.SocketGroup)
}

func (s *settings) socketUser() cli.Flag {
	return named("socket-user", "`USER` owner of the socket (default: the daemon's user)", "the name of a user", &s.SocketUser)
}

// upstreamNetwork are socket_vmnet's options that say what network it opens.
func (s *settings) upstreamNetwork() []cli.Flag {
	return []cli.Flag{
		oneOf("vmnet-mode", "`(host|shared|bridged)` kind of network (default: \"shared\")", &s.Mode),
		text("vmnet-interface", "`INTERFACE` interface of this host, needed with mode \"bridged\", such as \"en0\"", &s.Interface),
		text("vmnet-gateway", "`IP` this host's address in the network, such as \"192.168.105.1\"\nguests get the addresses "+s.wording("behind", "after")+" it", &s.gateway),
		text("vmnet-dhcp-end", "`IP` last address for guests (default: the gateway's with 254 as last byte)\nneeds --vmnet-gateway", &s.dhcpEnd),
		text("vmnet-mask", "`MASK` netmask (default: \"255.255.255.0\")\nneeds --vmnet-gateway", &s.mask),
		uuid("vmnet-interface-id", "`UUID` id of the vmnet interface (default: random)", "UUID", &s.InterfaceID),
		uuid("vmnet-network-identifier", "`UUID` with mode \"host\": id of an isolated network without DHCP", "network identifier UUID", &s.NetworkID),
		text("vmnet-nat66-prefix", "`PREFIX::` IPv6 prefix of 64 bits out of fd00::/8, for mode \"shared\" (default: random)", &s.nat66),
		on("vmnet-disable-dhcp", "no DHCP server in the network", &s.DisableDHCP),
	}
}

// ownDaemon are options of socket_vmnet2 alone, about the daemon and its clients.
func (s *settings) ownDaemon() []cli.Flag {
	return []cli.Flag{
		s.socketUser(),
		Checked("socket-mode", "`OCTAL` permissions of the socket (default: 0770)", s.setSocketMode),
		Checked("queue-size", "`BYTES` frames kept for a busy client (default: 2M)\n64K to 8M", s.setQueueSize),
		number("max-clients", "`N` clients at once, 1 to 4096 (default: 256)", 1, maxMaxClients, &s.MaxClients),
		on("keeper", "a parent process keeps the clients' sockets and starts the daemon again after a crash\nnot needed under systemd, which does both", &s.Keeper),
		named("state-dir", "`DIR` where leases and identities are kept", "a directory", &s.StateDir),
		Checked("runtime-dir", "`DIR|none` the sockets beside SOCKET (default: SOCKET.d)\nthose for datagrams, passed descriptors and questions such as status\n\"none\": there are no such sockets", s.setRuntimeDir),
		Checked("allow-uid", "`UID` serve the datagram sockets of this user\nwhere they would be refused, as root's are; a number or name, may be given several times", s.addAllowUID),
		Checked("metrics-listen", "`ADDR:PORT` metrics for Prometheus, as in \"127.0.0.1:9105\"\nat the path /metrics", s.setMetricsListen),
		on("metrics-anywhere", "let ADDR be one that other hosts reach\nthere is no password", &s.MetricsAnywhere),
		oneOf("log-format", "`(plain|text|json)` form of the log (default: plain)\nsocket_vmnet's own, or with times, as key=value or JSON", &s.LogFormat),
		oneOf("log-level", "`(debug|info|warn|error)` what is logged, and what is worse (default: info)\nDEBUG in the environment means debug", &s.LogLevel),
		on("list-interfaces", "print the interfaces that mode \"bridged\" can use\nneeds no SOCKET", &s.ListInterfaces),
	}
}

// ownNetwork are options of socket_vmnet2 alone, about the network.
func (s *settings) ownNetwork() []cli.Flag {
	return []cli.Flag{
		oneOf("backend", "`(auto|usernet|vmnet)` vmnet.framework or the embedded network\n(default: vmnet on macOS, usernet elsewhere)", &s.Backend),
		Checked("dns-record", "`NAME=IP` a name for the guests' DNS\nmay be given several times", s.addDNSRecord),
		Checked("host-loopback", "`on|off|PORT[,PORT]...` guests reach this host's 127.0.0.1 as host.internal\non the embedded network, or these ports of it (default: on; off in mode \"host\" and with --isolate)", s.setHostLoopback),
		named("gateway-user", "`USER` user of the embedded network's gateway process\nwhere the daemon is root (default: nobody)", "the name of a user", &s.GatewayUser),
		on("vmnet-gateway-any", "let --vmnet-gateway be a public address\nguests do not reach the address's owner then", &s.gatewayAny),
		oneOf("vmnet-api", "`(auto|network|interface)` how vmnet makes the network\nby a network object (macOS 26) or plain interfaces (default: interfaces, unless another option needs the network object)", &s.VmnetAPI),
		oneOf("vmnet-interfaces", "`(client|one)` an interface for each client or one for all (default: client)", &s.VmnetInterfaces),
		on("vmnet-disable-nat44", "no way out of the network by IPv4", &s.DisableNAT44),
		on("vmnet-disable-nat66", "no way out of the network by IPv6", &s.DisableNAT66),
		on("vmnet-disable-dns-proxy", "no DNS server in the network", &s.DisableDNSProxy),
		on("vmnet-disable-ra", "no router advertisements in the network (IPv6)", &s.DisableRA),
		number("vmnet-mtu", "`BYTES` largest packet, 1280 to 16384 (default: 1500)", minMTU, maxMTU, &s.MTU),
		Checked("vmnet-reserve", "`MAC=IP` an address that DHCP gives to this guest only\nmay be given several times, needs --vmnet-gateway", s.addReservation),
		Checked("vmnet-forward", "`PROTO:[HOSTIP:]PORT=IP:PORT` lead a TCP or UDP port of this host to a guest\nmay be given several times, as in \"tcp:8080=192.168.105.5:80\"; without HOSTIP it is at 127.0.0.1, on vmnet at all addresses", s.addForward),
		on("isolate", "guests do not reach each other", &s.Isolate),
		on("anti-spoof", "drop what guests send from addresses of others\none MAC address per client, not for guests that bridge or route", &s.AntiSpoof),
		on("offload", "leave checksums and segmentation of TCP to the host\nclients of SOCKET get frames of 32768 bytes at most, larger ones are dropped", &s.Offload),
	}
}

// groups are the options of the new program by what they are about, for its usage text.
var groups = []struct{ title, options string }{
	{"Network", "vmnet-mode vmnet-interface list-interfaces vmnet-gateway vmnet-gateway-any vmnet-mask backend gateway-user vmnet-forward " +
		"host-loopback vmnet-disable-nat44 isolate anti-spoof vmnet-mtu offload"},
	{"Guests' addresses and names", "vmnet-dhcp-end vmnet-reserve vmnet-disable-dhcp dns-record vmnet-disable-dns-proxy"},
	{"Socket and access", "socket-group socket-user socket-mode runtime-dir allow-uid max-clients queue-size"},
	{"vmnet (macOS)", "vmnet-api vmnet-interfaces vmnet-interface-id vmnet-network-identifier vmnet-nat66-prefix vmnet-disable-nat66 vmnet-disable-ra"},
	{"Log and metrics", "log-level log-format metrics-listen metrics-anywhere"},
	{"Process", "pidfile keeper state-dir help version"},
}

// examples are for the usage text of the new program.
var examples = []string{
	"socket_vmnet2 --vmnet-gateway=192.168.105.1 /tmp/vmnet.sock",
	"socket_vmnet2 exec /tmp/vmnet.sock -- qemu-system-x86_64 -netdev socket,id=n0,fd={fd} -device virtio-net-pci,netdev=n0,mac={mac} ...",
}

// text makes an option whose value is kept as it is; what field holds is the default.
func text(name, usage string, field *string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Value: *field, Destination: field}
}

// on makes an option without an argument.
func on(name, usage string, field *bool) cli.Flag {
	return &cli.BoolFlag{Name: name, Usage: usage, Destination: field}
}
