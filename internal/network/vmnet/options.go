// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"cmp"
	"log/slog"
	"net/netip"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// Values of Options.UseAPI and Options.Interfaces.
const (
	apiAuto      = "auto"      // whichever can do what is asked for
	apiNetwork   = "network"   // vmnet_network_create, macOS 26
	apiInterface = "interface" // vmnet_start_interface

	interfacesClient = "client" // one for each client
	interfacesOne    = "one"    // all clients share one
)

const (
	// defaultPatience is how long a busy subnet is waited for: macOS frees one seconds after its owner died.
	defaultPatience = 5 * time.Second
	// LaunchdPatience is for a job of launchd, which may start before the services that vmnet needs.
	LaunchdPatience = time.Minute
)

// Options describe the network. API and Mode are required; other zero fields leave the choice to macOS. What parses the command line
// has checked each value, and what does not go with the mode.
type Options struct {
	// NetworkConfig is as a network object takes it, but for ExternalInterface; what plain interfaces have of it they get as well.
	api.NetworkConfig

	API api.API
	// Interface of the host: the one to bridge to, or the way out.
	Interface string

	// Gateway, Subnet and DHCPEnd are either all set or all zero.
	Gateway    netip.Addr // IPv4
	DHCPEnd    netip.Addr // last address to lease
	DHCPEndSet bool       // asked for; else derived from the gateway

	InterfaceID [16]byte // of the anchor; the null UUID counts as not given
	NetworkID   [16]byte // of an isolated network without DHCP, in host mode; null = none
	Isolate     bool     // clients do not reach each other
	Offload     bool     // checksums and segmentation are left to the host: frames of 64 KiB

	UseAPI     string // empty = apiAuto
	Interfaces string // empty = interfacesClient

	// Patience is how long New tries again when macOS refuses to start the network; 0 = defaultPatience.
	Patience time.Duration
	// RetryAll tries again after any failure to start, not only when the subnet is busy.
	RetryAll bool

	Identity store // nil = nothing is kept
	Log      *slog.Logger

	wall func() time.Time // without the clock that timers have; nil = the system's
}

// A store keeps what makes a network the same one after a restart. Its methods may be called from several goroutines.
type store interface {
	// AnchorID is the UUID that the anchor was last started with, false when none is known.
	AnchorID() ([16]byte, bool)
	SaveAnchorID([16]byte) error
	// Subnet is the IPv4 subnet that the network had, masked, false when none is known.
	Subnet() (netip.Prefix, bool)
	SaveSubnet(netip.Prefix) error
}

func (o *Options) setDefaults() {
	o.UseAPI = cmp.Or(o.UseAPI, apiAuto)
	o.Interfaces = cmp.Or(o.Interfaces, interfacesClient)
	o.Patience = cmp.Or(o.Patience, defaultPatience)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.wall == nil {
		o.wall = func() time.Time { return time.Now().Round(0) }
	}
}
