// SPDX-License-Identifier: Apache-2.0

// Package antispoof keeps the clients of a network from sending in each other's name. A Guard stands between one client and
// the network and lets pass what carries the client's own addresses; the Registry that all guards share knows which address is whose.
//
//	MAC     the one that the client declared, else the first that it sent from; no other client's
//	IPv4    the one that the network's DHCP server leased to this MAC; without a lease the first one that the client
//	        announced or used, if it lies in the subnet and no other client or station holds it
//	IPv6    the link-local one that follows from the MAC, and the first maxIPv6 others that no other holds
//
// ARP and neighbour discovery may tell of these addresses only. Clients play neither DHCP server nor router. Frames with a
// VLAN tag, or with IP or ARP behind an LLC/SNAP header, are refused without looking further: what is inside could be taken
// out by a receiver. Other Ethernet types pass with the client's MAC. Headers that cannot be read are refused.
//
// A client keeps its addresses until its session ends, and a leased one until the lease ends. The fast path takes no lock
// and allocates nothing; it is left only when a client claims an address or DHCP gives it one.
package antispoof

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
)

const (
	// maxIPv6 is how many IPv6 addresses a client may use besides the one that follows from its MAC.
	maxIPv6 = 8

	// idleIPv6 is how long one of them must have been unused to give way to a new one: addresses for privacy (RFC 8981)
	// change, and old ones are not given up in any way that shows.
	idleIPv6 = 10 * time.Minute

	// maxHeld bounds what is remembered of clients that are not there, and of strangers. A DHCP server has as many addresses.
	maxHeld = 8192

	// strangerTime is how long an address is a stranger's after that was last seen to use it.
	strangerTime = 10 * time.Minute
)

// A Network is what is known of the network. Addresses are IPv4.
type Network struct {
	Subnet  netip.Prefix // zero: not known, so that any address of a host may be claimed
	Gateway netip.Addr   // the DHCP server, and no client's address; zero: not known, so that any server is believed
	// GatewayMAC is no client's address; nil: not known.
	GatewayMAC net.HardwareAddr
	// Reserved are further addresses that no client may have.
	Reserved []netip.Addr
	// Reservations are addresses that belong to one MAC each, whether it is there or not.
	Reservations []network.Reservation
	// Strangers tells that there may be stations that are no clients of this daemon.
	Strangers bool
}

// A Lease is an IPv4 address that a DHCP server gave to a MAC address.
type Lease struct {
	MAC  net.HardwareAddr `json:"mac"`
	IP   netip.Addr       `json:"ip"`
	Left time.Duration    `json:"left"` // until it ends
}

// A Registry knows which address is whose. Its methods may be called from several goroutines.
type Registry struct {
	now     func() time.Duration // a clock that never jumps; tests change it
	changed func()
	network atomic.Pointer[Network]

	mu     sync.Mutex
	macs   map[watch.MAC]*Guard
	used   map[netip.Addr]*Guard   // without a lease, but for those that follow from a MAC
	held   map[netip.Addr]*holding // by a lease, also of a client that is not there, or by a stranger
	leases map[watch.MAC]*holding  // those of held
	swept  time.Duration           // when held was last cleared of what has ended
}

// A holding is an address that belongs to a MAC until the given time. One that is leased never changes.
type holding struct {
	ip     netip.Addr
	mac    watch.MAC
	until  time.Duration
	leased bool
}

// New makes a Registry without clients. Describe comes next: until then no client gets an IPv4 address. changed is called when a lease
// has come or gone, without a lock, on the way of a frame; it does not block.
func New(changed func()) *Registry {
	start := time.Now()
	return &Registry{
		now: func() time.Duration { return time.Since(start) }, changed: changed, macs: map[watch.MAC]*Guard{},
		used: map[netip.Addr]*Guard{}, held: map[netip.Addr]*holding{}, leases: map[watch.MAC]*holding{},
	}
}

// Describe tells what the network is, and may do so again when it has changed. Addresses that clients hold stay theirs.
func (r *Registry) Describe(n Network) { r.network.Store(&n) }

// permits tells whether ip can be the address of a client with mac at all.
func (n *Network) permits(ip netip.Addr, mac watch.MAC) bool {
	if n == nil || ip == n.Gateway || !watch.Usable(ip) || slices.Contains(n.Reserved, ip) {
		return false
	}
	if i := slices.IndexFunc(n.Reservations, func(v network.Reservation) bool { return v.Addr == ip }); i >= 0 {
		return watch.MACOf(n.Reservations[i].MAC) == mac
	}
	if !n.Subnet.IsValid() {
		return true
	}
	if n.Subnet.Bits() > 30 { // it has neither a network nor a broadcast address (RFC 3021)
		return n.Subnet.Contains(ip)
	}
	return n.Subnet.Contains(ip.Prev()) && n.Subnet.Contains(ip.Next())
}

// Leased tells of leases that are known from elsewhere, such as the last process: their addresses are kept for their MACs. What
// is known here already counts more.
func (r *Registry) Leased(leases []Lease) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range leases {
		mac := watch.MACOf(l.MAC)
		if len(l.MAC) == 6 && l.IP.Is4() && l.Left > 0 && r.leases[mac] == nil && (r.held[l.IP] == nil || !r.held[l.IP].leased) {
			r.lease(mac, l.IP, after(now, l.Left), now)
		}
	}
}

// Leases are those that have not ended.
func (r *Registry) Leases() []Lease {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	var leases []Lease
	for _, l := range r.leases {
		if l.until > now {
			leases = append(leases, Lease{l.mac.Hardware(), l.ip, l.until - now})
		}
	}
	return leases
}

// after is now + d, without an overflow.
func after(now, d time.Duration) time.Duration {
	if d > watch.Forever-now {
		return watch.Forever
	}
	return now + d
}
