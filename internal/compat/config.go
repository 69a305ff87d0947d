// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"net/netip"
	"os"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// Defaults and limits of the new program's options.
const (
	defaultSocketGroup = "staff"

	defaultQueueSize = 2 << 20  // bytes
	minQueueSize     = 64 << 10 // bytes, room for one longest stream frame
	maxQueueSize     = 8 << 20  // bytes

	defaultMaxClients = 256
	maxMaxClients     = 4096

	// minMTU is what a link with IPv6 must carry (RFC 8200, section 5), and vmnet's networks have IPv6.
	minMTU = 1280 // bytes, layer 3
	// maxMTU is the largest MTU that macOS gives a network interface. A frame of that size is one that every stream client
	// takes.
	maxMTU = 16384 // bytes, layer 3

	DefaultSocketMode os.FileMode = 0o770
)

// A Backend names what makes the network.
type Backend string

// The back ends that --backend takes.
const (
	backendAuto    Backend = "auto"
	backendUsernet Backend = "usernet"
	BackendVmnet   Backend = "vmnet"
)

// Resolve replaces backendAuto by the one for goos: vmnet on macOS, usernet elsewhere.
func (b Backend) Resolve(goos string) Backend {
	switch {
	case b != backendAuto:
		return b
	case goos == "darwin":
		return BackendVmnet
	}
	return backendUsernet
}

// APIAuto is --vmnet-api's choice of one of vmnet.framework's two ways to make a network. "network" is vmnet_network_create of macOS
// 26, "interface" is vmnet_start_interface.
const APIAuto = "auto"

// What --vmnet-interfaces takes.
const (
	InterfacesClient = "client" // each client its own
	InterfacesOne    = "one"    // one for all clients
)

// RuntimeDirNone is what --runtime-dir takes besides a directory: no sockets beside SOCKET.
const RuntimeDirNone = "none"

// A dnsRecord is one --dns-record: a name in lower case without a dot at its end, and its IPv4 address.
type dnsRecord struct {
	Name string
	Addr netip.Addr
}

// A simulator stands in for vmnet.framework. Both fields are empty without one.
type simulator struct {
	Lib string // path of the library
	Dir string // directory it shares with other processes; empty: it keeps everything to itself
}

// A Config is a command line after all checks. It is complete: what was not given holds its default.
type Config struct {
	SocketPath string

	SocketGroup    string // name
	SocketGroupSet bool   // given; when it is not, a group that does not exist is no error
	SocketUser     string // name, empty: the daemon's own user
	SocketMode     os.FileMode

	Pidfile    string
	PidfileSet bool // given, may be empty even so

	Mode      network.Mode
	Interface string // of the host, empty when not given

	// Gateway, Subnet and DHCPEnd are either all set or all zero: then the network chooses.
	Gateway    netip.Addr
	Subnet     netip.Prefix // masked
	DHCPEnd    netip.Addr   // last address of the pool
	DHCPEndSet bool         // given, not derived from the gateway

	InterfaceID [16]byte // the null UUID counts as not given, as in socket_vmnet
	NetworkID   [16]byte // likewise

	NAT66Prefix netip.Prefix // a /64, zero when not given
	DisableDHCP bool

	VmnetAPI        string // APIAuto, "network" or "interface"
	VmnetInterfaces string // InterfacesClient or InterfacesOne
	DisableNAT44    bool
	DisableNAT66    bool
	DisableDNSProxy bool
	DisableRA       bool
	MTU             int // bytes, layer 3; 0: the default, 1500
	// Reservations need a gateway, so they are inside Subnet.
	Reservations  []network.Reservation
	LoopbackPorts []uint16 // of HostLoopback
	// Forwards lead to addresses inside Subnet, where that is known.
	Forwards     []network.Forward
	HostLoopback string // "on", "off", ports, or empty: as ReachHostLoopback has it
	Isolate      bool   // guests reach the host and, in shared mode, the outside, but not each other
	Offload      bool

	// ListInterfaces asks for a list and no daemon: SocketPath may be empty, and nothing else has been checked but the
	// form of each value.
	ListInterfaces bool

	Backend    Backend
	QueueSize  int // bytes, per client
	MaxClients int
	Keeper     bool   // a parent of the daemon starts it again after a crash
	StateDir   string // empty: chosen by the daemon
	RuntimeDir string // of the sockets beside SOCKET; empty: SOCKET.d; RuntimeDirNone: there are none
	// AllowUIDs are users whose datagram sockets are served although a rule would refuse them.
	AllowUIDs []uint32
	// GatewayUser is the user that the embedded network's gateway becomes; empty: GatewayOwner decides.
	GatewayUser string
	AntiSpoof   bool // clients send from their own addresses only
	DNSRecords  []dnsRecord

	MetricsListen   netip.AddrPort // of this host alone unless MetricsAnywhere; zero: no such port
	MetricsAnywhere bool

	Simulator simulator // in a build for tests alone

	LogFormat string // logPlain, logText or logJSON
	LogLevel  string // "debug", "info", "warn" or "error"; Debug goes before it

	// Debug is set by the mere presence of DEBUG in the environment.
	Debug bool
	// Warnings are to be logged at level Warn in this order, before anything else.
	Warnings []string
}

// defaultConfig is what a command line with nothing but SOCKET means.
func defaultConfig() Config {
	return Config{
		SocketGroup:     defaultSocketGroup,
		SocketMode:      DefaultSocketMode,
		Mode:            network.ModeShared,
		VmnetAPI:        APIAuto,
		VmnetInterfaces: InterfacesClient,
		Backend:         backendAuto,
		QueueSize:       defaultQueueSize,
		MaxClients:      defaultMaxClients,
		LogFormat:       logPlain,
		LogLevel:        "info",
	}
}

// ReachHostLoopback tells whether guests of the embedded network reach the host's loopback. A network that
// keeps guests from the outside, or from each other, does not open what the host's programs serve to this host alone.
func (c *Config) ReachHostLoopback() bool {
	if c.HostLoopback != "" {
		return c.HostLoopback != "off"
	}
	return c.Mode == network.ModeShared && !c.Isolate
}
