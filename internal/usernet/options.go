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
var ErrBridged = errors.New("bridged mode needs macOS vmnet; use --vmnet-mode=shared or host with the embedded network")

const (
	// MTU is the default of Options.MTU.
	MTU = 1500

	minMTU, maxMTU = 1280, 16384 // as --vmnet-mtu has them

	dialTimeout    = 10 * time.Second
	udpIdleTimeout = time.Minute
	maxFlows       = 256 // TCP, and again UDP, per guest; of either per forward
	maxForwards    = 1024
)

// Options describe the network. Only Mode is required.
type Options struct {
	Mode      vnet.Mode  // host or shared
	Gateway   netip.Addr // IPv4; zero = 192.168.105.1
	PrefixLen int        // 8 to 30; 0 = 24
	DHCPEnd   netip.Addr // last address to lease; zero = x.x.x.254

	DisableDHCP       bool
	NetworkIdentifier string // in host mode, any identifier means no DHCP, as in vmnet.framework

	// Reservations are addresses of the subnet, inside or outside of the DHCP range, that one guest gets and no other.
	Reservations []vnet.Reservation
	// Forwards lead ports of the host to guests. In shared mode the host listens on all its IPv4 addresses, as
	// vmnet.framework does for "the outside network"; in host mode, where the outside is kept out, on its loopback.
	// Guests see the gateway as the other end.
	Forwards []vnet.Forward
	// LateForwards lets the network start without the ports that others have now, and tries those again. Else New fails.
	LateForwards bool

	MTU             int  // bytes, layer 3, 1280 to 16384; 0 = 1500
	DisableNAT44    bool // no way out: only the gateway, its name server and the host's loopback are left
	DisableDNSProxy bool // no name server, and DHCP names none
	Isolate         bool // guests reach the gateway but not each other

	// DisableHostLoopback: the host has no alias, so that guests do not reach its loopback; host.internal has no address.
	DisableHostLoopback bool
	// Private is where the daemon listens for what is of this host and tells of all guests. No guest is led there by TCP; zero = nowhere.
	Private netip.AddrPort

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
	closeTime   time.Duration      // in the place of closeTimeout
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
