// SPDX-License-Identifier: Apache-2.0

// Package antispoof keeps the clients of a network from sending in each other's name. A Guard stands between one client and
// the network and lets pass what carries the client's own addresses; the Registry that all guards share knows who holds
// which.
//
//	MAC     the one that the client declared, else the first that it sent from; nobody else's
//	IPv4    the one that the network's DHCP server leased to this MAC; without a lease the first one that the client
//	        announced or used, if it lies in the subnet and nobody else holds it
//	IPv6    the link-local one that follows from the MAC, and the first maxIPv6 others that nobody else holds
//
// ARP and neighbour discovery may tell of these addresses only. Clients play neither DHCP server nor router. Frames with a
// VLAN tag, or with IP or ARP behind an LLC/SNAP header, are refused without looking further: what is inside could be taken
// out by a receiver. Other Ethernet types pass with the client's MAC. Headers that cannot be read are refused.
//
// A client keeps its addresses until its session ends, and a leased one until the lease ends. The fast path takes no lock
// and allocates nothing; it is left only when a client claims an address or DHCP gives it one.
package antispoof

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

const (
	// maxIPv6 is how many IPv6 addresses a client may use besides the one that follows from its MAC.
	maxIPv6 = 8

	// idleIPv6 is how long one of them must have been unused to give way to a new one: addresses for privacy (RFC 8981)
	// change, and old ones are not given up in any way that shows.
	idleIPv6 = 10 * time.Minute

	// maxLeases bounds what is remembered of clients that are not there. A DHCP server has as many addresses.
	maxLeases = 8192

	// forever is the end of what ends with the session.
	forever = time.Duration(1<<63 - 1)
)

// Options set up a Registry.
type Options struct {
	// Now is a clock that never jumps, since an arbitrary start; nil = the system's monotonic one.
	Now func() time.Duration
	// Changed is called when a lease has come or gone, without a lock, on the way of a frame; it does not block. nil = not.
	Changed func()
}

// A Network is what is known of the network. Addresses are IPv4.
type Network struct {
	Subnet  netip.Prefix // zero: not known, so that any address of a host may be claimed
	Gateway netip.Addr   // the DHCP server and nobody's address; zero: not known, so that any server is believed
	// GatewayMAC is nobody's address; nil: not known.
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
	MAC  net.HardwareAddr
	IP   netip.Addr
	Left time.Duration // until it ends
}

// A Registry knows who holds which address. Its methods may be called from several goroutines.
type Registry struct {
	now     func() time.Duration
	changed func()
	network atomic.Pointer[networkRules]

	mu      sync.Mutex
	guards  map[uint64]*Guard
	pending map[uint64]*Guard // of a Restore: their clients come back
	macs    map[mac48]*Guard
	leases  map[mac48]*lease // also of clients that are not there
	leased  map[ip4]*lease
	static  map[ip4]*Guard // addresses without a lease
	six     map[ip6]*Guard // but for those that follow from a MAC

	strangers    map[ip6]stranger // IPv4 addresses as mapped ones
	swept        time.Duration    // when strangers was last cleared of old ones
	lastStranger atomic.Uint64    // a digest of the last one seen
}

// mac48, ip4 and ip6 are addresses as numbers. Zero is none.
type (
	mac48 uint64
	ip4   uint32
	ip6   struct{ hi, lo uint64 }
)

// A lease is of ip to mac until the given time.
type lease struct {
	mac   mac48
	ip    ip4
	until time.Duration
}

// network is a Network as the guards want it.
type networkRules struct {
	known       bool // the subnet is
	first, last ip4  // of its hosts
	gateway     ip4
	gatewayMAC  mac48
	taken       map[ip4]mac48 // reserved, for a client's MAC or for nobody
	strangers   bool
}

// New makes a Registry without clients. Describe comes next: until then no client gets an IPv4 address.
func New(o Options) *Registry {
	if o.Now == nil {
		start := time.Now()
		o.Now = func() time.Duration { return time.Since(start) }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return &Registry{
		now:     o.Now,
		changed: o.Changed,
		guards:  map[uint64]*Guard{},
		pending: map[uint64]*Guard{},
		macs:    map[mac48]*Guard{},
		leases:  map[mac48]*lease{},
		leased:  map[ip4]*lease{},
		static:  map[ip4]*Guard{},
		six:     map[ip6]*Guard{},

		strangers: map[ip6]stranger{},
	}
}

// Describe tells what the network is, and may do so again when it has changed. Addresses that clients hold stay theirs.
func (r *Registry) Describe(n Network) {
	d := &networkRules{gateway: addr4(n.Gateway), taken: map[ip4]mac48{}, strangers: n.Strangers}
	if len(n.GatewayMAC) == 6 {
		d.gatewayMAC = load48(n.GatewayMAC)
	}
	if n.Subnet.IsValid() && n.Subnet.Addr().Is4() {
		base, size := addr4(n.Subnet.Masked().Addr()), uint64(1)<<(32-n.Subnet.Bits())
		d.known, d.first, d.last = true, base, base+ip4(size-1)
		if size > 2 { // else there are neither network nor broadcast addresses (RFC 3021)
			d.first, d.last = base+1, base+ip4(size-2)
		}
	}
	for _, a := range n.Reserved {
		d.taken[addr4(a)] = 0
	}
	for _, v := range n.Reservations {
		if len(v.MAC) == 6 {
			d.taken[addr4(v.Addr)] = load48(v.MAC)
		}
	}
	r.network.Store(d)
}

// Leased tells of leases that are known from elsewhere, such as the last process: their addresses are kept for their MACs. What
// is known here already counts more.
func (r *Registry) Leased(leases []Lease) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range leases {
		if len(l.MAC) != 6 || !l.IP.Is4() || l.Left <= 0 {
			continue
		}
		mac, ip := load48(l.MAC), addr4(l.IP)
		if r.leases[mac] == nil && r.leased[ip] == nil {
			r.lease(mac, ip, after(now, l.Left), now)
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
			leases = append(leases, Lease{l.mac.hardware(), l.ip.addr(), l.until - now})
		}
	}
	return leases
}

// permits tells whether ip can be the address of a client with mac at all.
func (n *networkRules) permits(ip ip4, mac mac48) bool {
	if n == nil || ip == 0 || ip == n.gateway {
		return false
	}
	if owner, ok := n.taken[ip]; ok && owner != mac {
		return false
	}
	if n.known {
		return n.first <= ip && ip <= n.last
	}
	top := ip >> 24
	return top != 0 && top != 127 && top < 224
}

// after is now + d, without an overflow.
func after(now, d time.Duration) time.Duration {
	if d > forever-now {
		return forever
	}
	return now + d
}

// load48 is the address at the head of b, which holds at least 6 bytes.
func load48(b []byte) mac48 {
	return mac48(binary.BigEndian.Uint16(b))<<32 | mac48(binary.BigEndian.Uint32(b[2:]))
}

func load4(b []byte) ip4 { return ip4(binary.BigEndian.Uint32(b)) }

func load6(b []byte) ip6 { return ip6{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])} }

// addr4 is a as a number, 0 for what is no IPv4 address.
func addr4(a netip.Addr) ip4 {
	if !a.Is4() {
		return 0
	}
	b := a.As4()
	return load4(b[:])
}

// isStation reports whether m can be the address of one station.
func (m mac48) isStation() bool { return m != 0 && m>>40&1 == 0 }

func (m mac48) hardware() net.HardwareAddr {
	if m == 0 {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, uint64(m))[2:]
}

func (a ip4) addr() netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(a))))
}

func (a ip6) addr() netip.Addr {
	return netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, a.hi), a.lo)))
}
