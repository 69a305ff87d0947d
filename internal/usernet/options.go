// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/usernet/dhcp"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// ErrBridged is returned by New for bridged mode.
var ErrBridged = errors.New("bridged mode needs macOS vmnet; use --vmnet-mode=shared or host with the user-space network")

const (
	// MTU of the network in bytes, layer 3.
	MTU = 1500

	dialTimeout    = 10 * time.Second
	udpIdleTimeout = time.Minute
	maxFlows       = 256 // TCP, and again UDP, per guest
)

// Options describe the network. Only Mode is required.
type Options struct {
	Mode      vnet.Mode  // host or shared
	Gateway   netip.Addr // IPv4; zero = 192.168.105.1
	PrefixLen int        // 8 to 30; 0 = 24
	DHCPEnd   netip.Addr // last address to lease; zero = x.x.x.254

	DisableDHCP       bool
	NetworkIdentifier string // in host mode, any identifier means no DHCP, as in vmnet.framework

	// DNSRecords are names the gateway resolves in addition to gateway.internal and host.internal.
	DNSRecords map[string]netip.Addr
	MaxClients int        // sizes the bridge's tables; 0 = 256
	Leases     dhcp.Store // keeps leases across restarts; nil = they end with the process

	Log *slog.Logger
	// Clock is the wall clock, nil = the system's.
	Clock func() time.Time
	// Dial opens the flows to the outside and to the host's loopback; nil = net.Dialer. network is "tcp4" or "udp4",
	// address an IPv4 address and a port.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// ResolvConf is the file with the host's resolvers; empty = /etc/resolv.conf.
	ResolvConf string
}

// tuning is what tests change.
type tuning struct {
	elapsed     func() time.Duration // DHCP's clock; nil = monotonic
	dialTimeout time.Duration
	udpIdle     time.Duration
	dnsPort     string             // of the host's resolvers
	onFrame     func(frame []byte) // called with each frame before it reaches the stack; nil = nothing
}

func (o *Options) setDefaults() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	if o.ResolvConf == "" {
		o.ResolvConf = "/etc/resolv.conf"
	}
}
