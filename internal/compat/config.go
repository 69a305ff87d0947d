// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"net/netip"
	"os"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// Defaults and limits of the new program's options.
const (
	DefaultSocketGroup = "staff"

	DefaultQueueSize = 2 << 20  // bytes
	MinQueueSize     = 64 << 10 // bytes, room for one longest stream frame
	MaxQueueSize     = 8 << 20  // bytes

	DefaultMaxClients = 256
	MaxMaxClients     = 4096

	DefaultSocketMode os.FileMode = 0o770
)

// A Backend names what makes the network.
type Backend string

// The back ends that --backend takes.
const (
	BackendAuto    Backend = "auto"
	BackendUsernet Backend = "usernet"
	BackendVmnet   Backend = "vmnet"
)

// Resolve replaces BackendAuto by the one for goos: vmnet on macOS, usernet elsewhere.
func (b Backend) Resolve(goos string) Backend {
	switch {
	case b != BackendAuto:
		return b
	case goos == "darwin":
		return BackendVmnet
	}
	return BackendUsernet
}

// A DNSRecord is one --dns-record: a name in lower case without a dot at its end, and its IPv4 address.
type DNSRecord struct {
	Name string
	Addr netip.Addr
}

// A Config is a command line after all checks. It is complete: what was not given holds its default.
type Config struct {
	SocketPath string

	SocketGroup    string // name
	SocketGroupSet bool   // given; when it is not, a group that cannot be had is no error
	SocketUser     string // name, empty: the daemon's own user
	SocketMode     os.FileMode

	Pidfile    string
	PidfileSet bool // given, may be empty even so

	Mode      vnet.Mode
	Interface string // of the host, empty when not given

	// Gateway, Subnet and DHCPEnd are either all set or all zero: then the network chooses.
	Gateway    netip.Addr
	Subnet     netip.Prefix // masked
	DHCPEnd    netip.Addr   // last address of the pool
	DHCPEndSet bool         // given, not derived from the gateway

	// The null UUID counts as not given, as in socket_vmnet.
	InterfaceID    [16]byte
	InterfaceIDSet bool
	NetworkID      [16]byte
	NetworkIDSet   bool

	NAT66Prefix netip.Prefix // a /64, zero when not given
	DisableDHCP bool

	Backend    Backend
	QueueSize  int // bytes, per client
	MaxClients int
	StateDir   string // empty: chosen by the daemon
	DNSRecords []DNSRecord

	// Debug is set by the mere presence of DEBUG in the environment.
	Debug bool
	// Warnings are to be logged at level Warn in this order, before anything else.
	Warnings []string
}

// defaultConfig is what a command line with nothing but SOCKET means.
func defaultConfig() Config {
	return Config{
		SocketGroup: DefaultSocketGroup,
		SocketMode:  DefaultSocketMode,
		Mode:        vnet.ModeShared,
		Backend:     BackendAuto,
		QueueSize:   DefaultQueueSize,
		MaxClients:  DefaultMaxClients,
	}
}
