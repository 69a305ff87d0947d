// SPDX-License-Identifier: Apache-2.0

// Package network is the contract between the clients' side of the daemon and a network back end: a Network hands out one Port
// per client.
package network

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// ErrClosed is returned by Attach once the network has been closed. The caller must not retry.
var ErrClosed = errors.New("network closed")

// ErrIDInUse is returned by Attach when another port has the interface id that was asked for.
var ErrIDInUse = errors.New("another client has this interface id")

// Mode is the kind of network, as --vmnet-mode names it.
type Mode string

// The modes of vmnet.framework.
const (
	ModeHost    Mode = "host"    // guests and host reach each other, nothing else
	ModeShared  Mode = "shared"  // as host, and the outside through NAT
	ModeBridged Mode = "bridged" // on a physical interface of the host
)

// A Network is one layer-2 segment with whatever gateway its back end offers.
type Network interface {
	// Attach makes a port whose frames towards the client go to toClient. It may take seconds and is never called from
	// a client's read loop. It may be called from several goroutines.
	Attach(ctx context.Context, o PortOptions, toClient frame.Sink) (Port, error)
	Info() Info
	// Close ends every port that is still attached and frees what the network holds. It is idempotent.
	Close() error
}

// A Port is one client's attachment.
type Port interface {
	// Send passes frames from the client to the network. It never blocks on another client. b is borrowed until Send
	// returns. One goroutine at a time calls Send; after Close the frames are dropped and counted.
	Send(b frame.Batch)
	Info() PortInfo
	Stats() PortStats
	// MACs are the addresses that are known behind the port now.
	MACs() []MAC
	// Done is closed when the port has died by itself; Err then tells why.
	Done() <-chan struct{}
	Err() error
	// Close detaches the port. After it returns the sink is never called again. It waits for deliveries in flight, so it
	// is never called from Deliver or with a lock held. It is idempotent.
	Close() error
}

// PortOptions describe the client to the network.
type PortOptions struct {
	// Name tells the client in logs and status, such as "client 3".
	Name string
	// Session is the number of the client's session, which no other has before or after it. 0: it has none.
	Session uint64
	// ID is stable for the same client across restarts where one is known, else empty. A back end derives interface
	// identities from it. It is what the client says of itself: two may have the same one at the same time.
	ID string
	// InterfaceID is the identity that the client asks for, in the form of a UUID; null for none. A back end that cannot
	// give it, because another port has it, returns ErrIDInUse.
	InterfaceID [16]byte
	// MACs are addresses that are known to be behind the port, since the client had one before: frames to them need not be
	// flooded until the first one comes from there.
	MACs []MAC
	// Hold, if not nil, is called by Send when the client sends to nothing but this one. It may be left unread for a moment.
	Hold func(behind frame.Bounded)
}

// A MAC is an Ethernet address.
type MAC [6]byte

// Info describes a network. Fields that do not apply are zero.
type Info struct {
	Backend   string // "usernet", "vmnet"
	Mode      Mode
	Subnet    netip.Prefix
	Gateway   netip.Addr
	DHCPStart netip.Addr // both zero when there is no DHCP server
	DHCPEnd   netip.Addr
	MTU       int // bytes, layer 3
	MaxFrame  int // bytes, layer 2, without the prefix

	Interface string // of the host, in bridged mode
	Isolated  bool   // guests do not reach each other
	Offload   bool   // checksums and segmentation are the host's: frames are up to 64 KiB long
}

// PortInfo describes a port.
type PortInfo struct {
	MAC         net.HardwareAddr // of the interface behind the port, nil where there is none
	MTU         int              // bytes, layer 3
	MaxFrame    int              // bytes, layer 2, without the prefix
	InterfaceID string           // UUID, empty where there is none
	Kind        interfaceKind    // whether the interface is the client's alone; it may change while the port lives
}

// An interfaceKind tells whether clients share an interface of the system. The names are part of the status output.
type interfaceKind string

// Kinds of interfaces. The zero interfaceKind is that of a network whose ports are not interfaces of the system.
const (
	InterfaceOwn    interfaceKind = "own"    // one for this port
	InterfaceShared interfaceKind = "shared" // one for several ports
)

// PortStats are counters since the port was attached.
type PortStats struct {
	// Drops counts frames from this client that the network dropped, by reason.
	Drops map[DropReason]uint64 `json:"drops,omitempty"`
	// Lost counts frames for this client that the network had to drop, by reason. What the client's own link drops is not
	// in it.
	Lost map[DropReason]uint64 `json:"lost,omitempty"`
	// MACs is how many source addresses are known behind the port now.
	MACs int `json:"-"`
	// Moved is how many times an address came to this port from another one, as far as the network knows.
	Moved uint64 `json:"moved,omitempty"`
	// Unlearned is how many sightings of a source address were not learned, for lack of room or because the address is another
	// port's for good.
	Unlearned uint64 `json:"unlearned,omitempty"`
}

// Plus is the sum of two ports' counters, without those that are zero, in maps of its own. The addresses are those of o.
func (s PortStats) Plus(o PortStats) PortStats {
	sum := PortStats{
		Drops: map[DropReason]uint64{}, Lost: map[DropReason]uint64{}, MACs: o.MACs, Moved: s.Moved + o.Moved, Unlearned: s.Unlearned + o.Unlearned,
	}
	for _, one := range []PortStats{s, o} {
		addTo(sum.Drops, one.Drops)
		addTo(sum.Lost, one.Lost)
	}
	return sum
}

func addTo(sum, counts map[DropReason]uint64) {
	for reason, n := range counts {
		if n > 0 {
			sum[reason] += n
		}
	}
}

// DropReason names why a frame was dropped. The names are part of the status output.
type DropReason string

// Reasons for drops on the way from a client into the network.
const (
	DropStorm    DropReason = "drop_storm"    // above the flood budget of the source port
	DropOversize DropReason = "drop_oversize" // longer than the destination takes
	DropHairpin  DropReason = "drop_hairpin"  // destination is behind the source port itself
	DropIsolated DropReason = "drop_isolated" // destination is a client that this one may not reach
	DropClosed   DropReason = "drop_closed"   // sent after Close

	DropRefused   DropReason = "drop_refused"   // the host's network did not take this frame
	DropExhausted DropReason = "drop_exhausted" // the host's network had no buffer for it
	DropDown      DropReason = "drop_down"      // the client's interface was being started again
)

// A Reservation is an address that DHCP keeps for one guest.
type Reservation struct {
	MAC  net.HardwareAddr
	Addr netip.Addr // IPv4
}

// A Forward leads a port of the host to a guest.
type Forward struct {
	Proto    string     // "tcp" or "udp"
	HostIP   netip.Addr // IPv4; not valid: 127.0.0.1 on the embedded network, on vmnet all that the host has
	HostPort uint16
	Guest    netip.AddrPort
}

// String is the value of --vmnet-forward.
func (f Forward) String() string {
	host := strconv.Itoa(int(f.HostPort))
	if f.HostIP.IsValid() {
		host = f.HostIP.String() + ":" + host
	}
	return f.Proto + ":" + host + "=" + f.Guest.String()
}
