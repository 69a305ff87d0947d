// SPDX-License-Identifier: Apache-2.0

package compat

import "slices"

// An optionKey names the options that the parser itself acts on.
type optionKey int

const (
	keyNone optionKey = iota
	keyHelp
	keyVersion
)

// An option is one line of the table from which everything else is made: what the scanner knows, urfave's flags, the usage
// text and the checks.
type option struct {
	name  string
	short byte   // 0 where there is none
	arg   string // the argument's name in the usage text, empty where there is none
	help  string // for the usage text, lines broken with \n

	// set stores a given value. It is never nil, except for help and version.
	set func(s *settings, value string) error
	// atOnce has the value checked in order of appearance, so that an error comes before a --help behind it. It is what
	// socket_vmnet does for the values it parses in its option loop.
	atOnce bool
	repeat bool // may be given several times; for all others the last one wins
	alone  bool // SOCKET may be left out
	key    optionKey
}

// settings is a Config being filled. The addresses stay text until all of them are known.
type settings struct {
	Config
	gateway, dhcpEnd, mask, nat66 *string // nil: not given

	gatewayAny bool // a public one is meant
	old        bool // of the old program, which has no such option and takes any
}

// upstreamOptions are those of socket_vmnet's main branch, in the order of its usage text.
var upstreamOptions = []option{
	{name: "socket-group", arg: "GROUP", help: `group that may use the socket (default: "staff")`, set: setSocketGroup},
	{name: "vmnet-mode", arg: "(host|shared|bridged)", help: `kind of network (default: "shared")`, set: setMode, atOnce: true},
	{name: "vmnet-interface", arg: "INTERFACE", help: `interface of this host, needed with mode "bridged", such as "en0"`, set: setInterface},
	{name: "vmnet-gateway", arg: "IP", help: "this host's address in the network, such as \"192.168.105.1\"\nguests get the addresses behind it", set: text(func(s *settings) **string { return &s.gateway })},
	{name: "vmnet-dhcp-end", arg: "IP", help: "last address for guests (default: the gateway's with 254 as last byte)\nneeds --vmnet-gateway", set: text(func(s *settings) **string { return &s.dhcpEnd })},
	{name: "vmnet-mask", arg: "MASK", help: "netmask (default: \"255.255.255.0\")\nneeds --vmnet-gateway", set: text(func(s *settings) **string { return &s.mask })},
	{name: "vmnet-interface-id", arg: "UUID", help: "id of the vmnet interface (default: random)", set: setInterfaceID, atOnce: true},
	{name: "vmnet-network-identifier", arg: "UUID", help: "with mode \"host\": id of an isolated network without DHCP", set: setNetworkID, atOnce: true},
	{name: "vmnet-nat66-prefix", arg: "PREFIX::", help: "IPv6 prefix of 64 bits out of fd00::/8, for mode \"shared\" (default: random)", set: text(func(s *settings) **string { return &s.nat66 })},
	{name: "vmnet-disable-dhcp", help: "no DHCP server in the network", set: setDisableDHCP},
	{name: "pidfile", short: 'p', arg: "PIDFILE", help: "file that holds the process id while the daemon is ready", set: setPidfile},
	{name: "help", short: 'h', help: "print this text and end", key: keyHelp},
	{name: "version", short: 'v', help: "print the version and end", key: keyVersion},
}

// optionsOf returns the table of p, in the order of its usage text.
func optionsOf(p Personality) []option {
	if p == Old {
		return upstreamOptions
	}
	return slices.Concat(upstreamOptions, newOptions, buildOptions)
}

// specsOf is the scanner's view of opts.
func specsOf(opts []option) []spec {
	specs := make([]spec, len(opts))
	for i, o := range opts {
		specs[i] = spec{name: o.name, short: o.short}
		if o.arg != "" {
			specs[i].arg = requiredArgument
		}
	}
	return specs
}

// text makes a set function that keeps the value as it is.
func text(field func(*settings) **string) func(*settings, string) error {
	return func(s *settings, v string) error {
		*field(s) = &v
		return nil
	}
}
