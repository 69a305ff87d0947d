// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"slices"
	"strings"

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
			&cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "print this text and end"},
			&cli.BoolFlag{Name: "version", Aliases: []string{"v"}, Usage: "print the version and end"},
		})
	if p == New {
		all = slices.Concat(all, s.ownDaemon(), s.ownNetwork(), buildFlags(s))
	}
	return all
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
		text("vmnet-gateway", "`IP` this host's address in the network, such as \"192.168.105.1\"\nguests get the addresses behind it", &s.gateway),
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
		Checked("queue-size", "`BYTES` frames kept for a busy client, 64K to 8M (default: 2M)", s.setQueueSize),
		number("max-clients", "`N` clients at once, 1 to 4096 (default: 256)", "number", 1, maxMaxClients, &s.MaxClients),
		named("state-dir", "`DIR` where leases and identities are kept over restarts", "a directory", &s.StateDir),
		Checked("runtime-dir", "`DIR|none` where the sockets for datagrams and passed descriptors are (default: SOCKET.d)\n\"none\": there are no such sockets", s.setRuntimeDir),
		Checked("allow-uid", "`UID` serve this user's datagram sockets, by number or name, where they would be refused\nroot's need it, too; may be given several times", s.addAllowUID),
		Checked("metrics-listen", "`ADDR:PORT` tell Prometheus what happens at http://ADDR:PORT/metrics, as in \"127.0.0.1:9105\"", s.setMetricsListen),
		on("metrics-anywhere", "let ADDR be one that other hosts reach; there is no password", &s.MetricsAnywhere),
		on("metrics-page", "show all that status tells on a page at http://ADDR:PORT/, too; there is no password", &s.MetricsPage),
		oneOf("log-format", "`(plain|text|json)` form of the log: socket_vmnet's own, or with times, as key=value or JSON\n(default: plain)", &s.LogFormat),
		oneOf("log-level", "`(debug|info|warn|error)` what is logged, and what is worse (default: info)\nDEBUG in the environment means debug", &s.LogLevel),
		on("list-interfaces", "print the interfaces that mode \"bridged\" can use, and end; needs no SOCKET", &s.ListInterfaces),
	}
}

// ownNetwork are options of socket_vmnet2 alone, about the network.
func (s *settings) ownNetwork() []cli.Flag {
	return []cli.Flag{
		oneOf("backend", "`(auto|usernet|vmnet)` what makes the network: vmnet.framework or the embedded one\n(default: vmnet on macOS, usernet elsewhere)", &s.Backend),
		Checked("dns-record", "`NAME=IP` a name for the guests' DNS, may be given several times", s.addDNSRecord),
		oneOf("host-loopback", "`(on|off)` guests of the embedded network reach 127.0.0.1 of this host as host.internal\n(default: on; off in mode \"host\" and with --isolate)", &s.HostLoopback),
		named("gateway-user", "`USER` user that the embedded network's gateway becomes under root (default: nobody)", "the name of a user", &s.GatewayUser),
		on("vmnet-gateway-any", "let --vmnet-gateway be a public address, whose owner guests then do not reach", &s.gatewayAny),
		oneOf("vmnet-api", "`(auto|network|interface)` how vmnet makes the network: by a network object (macOS 26) or plain interfaces\n(default: interfaces, unless another option needs the network object)", &s.VmnetAPI),
		oneOf("vmnet-interfaces", "`(client|one)` a vmnet interface for each client or one for all (default: client)", &s.VmnetInterfaces),
		on("vmnet-disable-nat44", "no way out of the network by IPv4", &s.DisableNAT44),
		on("vmnet-disable-nat66", "no way out of the network by IPv6", &s.DisableNAT66),
		on("vmnet-disable-dns-proxy", "no DNS server in the network", &s.DisableDNSProxy),
		on("vmnet-disable-ra", "no router advertisements in the network (IPv6)", &s.DisableRA),
		number("vmnet-mtu", "`BYTES` largest packet, 1280 to 16384 (default: 1500)", "number of bytes", minMTU, maxMTU, &s.MTU),
		Checked("vmnet-reserve", "`MAC=IP` an address that DHCP gives to this guest only, may be given several times\nneeds --vmnet-gateway", s.addReservation),
		Checked("vmnet-forward", "`PROTO:PORT=IP:PORT` lead a TCP or UDP port of this host to a guest, may be given several times\nas in \"tcp:8080=192.168.105.5:80\"", s.addForward),
		on("isolate", "guests do not reach each other", &s.Isolate),
		on("anti-spoof", "drop what guests send from addresses of others; one MAC address per client\nnot for guests that bridge or route", &s.AntiSpoof),
		on("offload", "leave checksums and the cutting of large TCP packets to the host\nclients of SOCKET get frames of 32768 bytes at most, larger ones are dropped", &s.Offload),
	}
}

// text makes an option whose value is kept as it is; what field holds is the default.
func text(name, usage string, field *string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Value: *field, Destination: field}
}

// on makes an option without an argument.
func on(name, usage string, field *bool) cli.Flag {
	return &cli.BoolFlag{Name: name, Usage: usage, Destination: field}
}

// choices are the values that the usage of an option names: (a|b|c) has three.
func choices(usage string) []string {
	arg, _, _ := strings.Cut(strings.TrimPrefix(usage, "`("), ")`")
	return strings.Split(arg, "|")
}
