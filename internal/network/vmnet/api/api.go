// SPDX-License-Identifier: Apache-2.0

// Package api is the contract between the portable vmnet network and whatever carries its calls to vmnet.framework: the
// purego binding in ffi, or a fake in tests. One method is one call of the framework, waited for where the framework
// answers through a handler.
package api

import (
	"context"
	"net"
	"net/netip"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// An API is vmnet.framework on this machine. Its methods may be called from several goroutines. What they are given was checked: it
// is of the kinds that the comments say.
type API interface {
	Features() Features
	// NewNetwork makes a vmnet_network_ref (macOS 26, host and shared mode). It fails with ErrMissing where the framework
	// has none.
	NewNetwork(c NetworkConfig) (Network, error)
	// Start is vmnet_start_interface, and waits until its handler was called or ctx is done. An interface whose handler
	// comes after that is stopped by the binding.
	Start(ctx context.Context, c InterfaceConfig) (Interface, error)
	// SharedInterfaces is vmnet_copy_shared_interface_list: the names that bridged mode takes.
	SharedInterfaces() ([]string, error)
}

// Features tell which newer parts the framework has, by the symbols it exports and never by a version number.
type Features struct {
	Networks bool // vmnet_network_create and what it needs: macOS 26
}

// A Network is a vmnet_network_ref that interfaces are started on.
type Network interface {
	// Start is vmnet_interface_start_with_network; see API.Start. Of c only Isolate and Offload apply.
	Start(ctx context.Context, c InterfaceConfig) (Interface, error)
	// Subnet is the IPv4 subnet as the framework tells it, masked; invalid after Release.
	Subnet() netip.Prefix
	// Release drops our reference. Started interfaces and starts under way hold their own, so it may be called while there are
	// some; a Start after it is an error. It is idempotent.
	Release()
}

// A NetworkConfig is what vmnet_network_configuration_* can set. Zero fields leave the framework's default.
type NetworkConfig struct {
	Mode              network.Mode // host or shared; in bridged mode there is no network object
	ExternalInterface string       // the way out, shared mode only
	Subnet            netip.Prefix // IPv4, masked; the host gets its first address
	NAT66Prefix       netip.Prefix // a /64
	MTU               int          // bytes
	DisableNAT44      bool
	DisableNAT66      bool
	DisableDHCP       bool
	DisableDNSProxy   bool
	DisableRA         bool
	Reservations      []network.Reservation
	Forwards          []network.Forward
}

// An InterfaceConfig is the description a plain interface is started with. Zero fields are not passed, except Isolate and
// Offload, which always are.
type InterfaceConfig struct {
	Mode            network.Mode
	SharedInterface string // vmnet_shared_interface_name_key

	// Start, End and Mask are the gateway, the last address and the netmask, of IPv4; all three or none.
	Start, End, Mask netip.Addr

	InterfaceID [16]byte // the null UUID counts as not given
	NetworkID   [16]byte
	NAT66Prefix netip.Prefix
	MTU         int
	Isolate     bool // vmnet_enable_isolation_key
	Offload     bool // vmnet_enable_tso_key and vmnet_enable_checksum_offload_key
}

// Params are what the framework says of a started interface. Fields that it does not tell are zero.
type Params struct {
	MAC              net.HardwareAddr
	MTU              int // bytes, layer 3
	MaxPacket        int // bytes, layer 2; buffers for reading must hold it
	ReadMax          int // packets a vmnet_read may return (macOS 15)
	WriteMax         int // packets a vmnet_write may take (macOS 15)
	InterfaceID      string
	Start, End, Mask netip.Addr
	// Entries is everything it said, sorted by key, for the log.
	Entries []Entry
}

// An Entry is one start parameter.
type Entry struct {
	Key   string // such as "vmnet_mtu"
	Value any    // uint64, int64, bool or string; a UUID is a string in upper case
}

// An Interface is a started interface_ref. Its events, each of which tells that packets may have arrived, are off until Notify
// turns them on.
type Interface interface {
	Params() Params
	// Notify turns events on or off.
	Notify(on bool) error
	// Wait returns once an event has come or Wake was called since it returned last. It may also return for nothing, as when
	// an event was on its way while events were turned off. One goroutine at a time waits, none after Stop was called.
	Wait()
	// Wake ends the Wait under way, or else the next one. It may be called at any time and does not wait.
	Wake()
	// Read is one vmnet_read of up to all of r's slots. With Success r holds what was read, nothing perhaps. One
	// goroutine at a time reads.
	Read(r *Reader) Status
	// Write is one vmnet_write of what w holds: all of it is written, or nothing and a status other than Success.
	// Goroutines may write at the same time, each with a Writer of its own.
	Write(w *Writer) Status
	// Forward is vmnet_interface_add_ip_port_forwarding_rule, for plain interfaces.
	Forward(ctx context.Context, f network.Forward) error
	// Stop turns events off and stops the interface, and waits until its handler was called or ctx is done. The caller
	// makes sure that no Read or Write is under way or comes after. It is idempotent.
	Stop(ctx context.Context) error
}
