// SPDX-License-Identifier: Apache-2.0

// Package watch reads a client's ARP and DHCPv4 frames in passing, to tell its MAC address, IPv4 address and hostname in logs
// and status. It sends nothing, decides nothing and believes what the guest says: nothing may be permitted because of it.
//
// Frames with a VLAN tag are not looked into.
//
// Its reading of ARP, IPv4 and DHCP is also antispoof's.
package watch

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// A Watch collects what is known about one client. Its zero value knows nothing and is ready. All methods may be called
// from several goroutines.
type Watch struct {
	mu    sync.Mutex
	known Snapshot
	waits atomic.Bool      // known.Waiting is not zero; set with mu held
	now   func() time.Time // time.Now if nil; tests change it
}

// maxHostname is the longest hostname that is kept, in bytes: one label (RFC 1035 section 2.3.4).
const maxHostname = 63

// Counts are the DHCP messages of one guest, and those for it, that came by.
type Counts struct {
	Discovers uint64 `json:"discovers,omitempty"`
	Requests  uint64 `json:"requests,omitempty"`
	// Answers are counted only where what goes to the client is passed.
	Offers uint64 `json:"offers,omitempty"`
	Acks   uint64 `json:"acks,omitempty"`
	Naks   uint64 `json:"naks,omitempty"`
}

// A Snapshot is what is known about a client at one moment. Fields that are not known are zero.
type Snapshot struct {
	MAC      net.HardwareAddr // source of the client's first frame; not to be written to
	IP       netip.Addr       // IPv4 address in use, as the guest or a DHCP server said last
	Claimed  time.Time        // when it was said
	Hostname string           // sanitised, at most 63 bytes
	Wanted   netip.Addr       // IPv4 address that the guest asked its DHCP server for last
	DHCP     Kind             // the DHCP message that the guest sent last
	Counts   Counts
	// Waiting is when the guest began to ask for what has not been answered yet; zero: it waits for nothing.
	Waiting time.Time
	Asked   time.Time // when it asked last; zero: it waits for nothing
}

// patience is for how long after its last question a guest is taken to wait. One that asks on in vain does it at least once in 64 s
// (RFC 2131 section 4.1), or after a pause of five minutes as ISC's dhclient does; one that does not has been given an address in
// another way, or was shut down.
const patience = 10 * time.Minute

// Interesting reports whether f, an Ethernet frame without its prefix, may hold something for a Watch: an ARP packet or an
// unfragmented DHCPv4 message. It is meant for the hot path, costs a few nanoseconds and allocates nothing.
func Interesting(f []byte) bool {
	if len(f) < EthernetLen+arpLen { // also the least for IPv4 and UDP headers
		return false
	}
	switch binary.BigEndian.Uint16(f[12:]) {
	case TypeARP:
		return true
	case TypeIPv4:
		return dhcpIn(f) != nil
	}
	return false
}

// FromClient takes a frame that the client sent, without its prefix, and reports whether MAC, IP or Hostname changed. The
// first frame must be passed whatever it is, later ones only if Interesting. The guest decides how often something
// changes: a caller that logs it must limit its rate.
func (w *Watch) FromClient(f []byte) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known.MAC == nil && len(f) >= EthernetLen && MACOf(f[6:]).IsStation() {
		w.known.MAC, changed = MACOf(f[6:]).Hardware(), true
	}
	own := MACOf(w.known.MAC)
	if a, ok := ParseARP(f); ok {
		return a.MAC == own && w.claim(a) || changed
	}
	if m, ok := ParseDHCP(dhcpIn(f)); ok && m.Op == OpRequest && m.MAC == own {
		return w.clientDHCP(&m) || changed
	}
	return changed
}

// ToClient takes a frame on its way to the client, without its prefix, and reports whether IP changed: the address comes
// from a DHCP ACK for this client's MAC. Only Interesting frames need to be passed, and answers only while Waiting.
func (w *Watch) ToClient(f []byte) (changed bool) {
	m, ok := ParseDHCP(dhcpIn(f))
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok || m.Op != OpReply || m.MAC != MACOf(w.known.MAC) {
		return false
	}
	switch m.Kind {
	case OFFER:
		w.known.Counts.Offers++
	case ACK:
		w.known.Counts.Acks++
	case NAK:
		w.known.Counts.Naks++
	default:
		return false
	}
	w.answered()
	return m.Kind == ACK && Usable(m.Yours) && w.setIP(m.Yours)
}

// Waiting reports whether the guest waits for an answer of a DHCP server. It costs one atomic load.
func (w *Watch) Waiting() bool { return w.waits.Load() }

// Snapshot is everything known now. It allocates nothing.
func (w *Watch) Snapshot() Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.known.Asked.IsZero() && w.time().Sub(w.known.Asked) > patience {
		w.answered()
	}
	return w.known
}

// time is what a watch of this moment shows.
func (w *Watch) time() time.Time {
	if w.now != nil {
		return w.now()
	}
	return time.Now()
}

// claim notes the address that the guest says it uses in an ARP packet. A probe (RFC 5227, from 0.0.0.0) claims nothing, and an
// answer may be for another station (proxy ARP). w.mu is held.
func (w *Watch) claim(a arpPacket) (changed bool) {
	if !Usable(a.Sender) || a.Op != OpRequest && a.Op != OpReply {
		return false
	}
	if a.Op == OpReply && a.Sender != a.Target && w.known.IP.IsValid() && w.known.IP != a.Sender {
		return false
	}
	if w.known.DHCP == DISCOVER && !a.Sender.IsLinkLocalUnicast() {
		w.answered() // it asked for any address, so it had none: it has got this one in another way
	}
	return w.setIP(a.Sender)
}

// setIP notes the address in use. The last news wins, whether from ARP or DHCP. w.mu is held.
func (w *Watch) setIP(ip netip.Addr) (changed bool) {
	changed = w.known.IP != ip
	w.known.IP, w.known.Claimed = ip, w.time()
	return changed
}

// ask notes that the guest wants an answer. w.mu is held.
func (w *Watch) ask() {
	now := w.time()
	if w.known.Waiting.IsZero() || now.Sub(w.known.Asked) > patience {
		w.known.Waiting = now
		w.waits.Store(true)
	}
	w.known.Asked = now
}

// answered notes that the guest does not wait any more. w.mu is held.
func (w *Watch) answered() {
	w.known.Waiting, w.known.Asked = time.Time{}, time.Time{}
	w.waits.Store(false)
}

// clientDHCP notes what the guest tells its server. w.mu is held.
func (w *Watch) clientDHCP(m *message) (changed bool) {
	before := w.known.IP
	switch m.Kind {
	case DISCOVER, REQUEST:
		w.question(m)
	case kindInform:
		if Usable(m.Client) {
			w.setIP(m.Client)
		}
	case RELEASE, DECLINE:
		w.known.IP, w.known.Claimed = netip.Addr{}, time.Time{}
		w.answered()
	default:
		return false // BOOTP, or a server's message from the client's side
	}
	w.known.DHCP = m.Kind
	changed = w.known.IP != before
	var room [maxHostname]byte
	if name := sanitize(room[:0], m.hostname); len(name) > 0 && w.known.Hostname != string(name) { // compares without allocating
		w.known.Hostname = string(name)
		changed = true
	}
	return changed
}

// sanitize appends a name to dst, as far as there is room. It ends at a NUL, which some clients append, and every byte that is
// not a letter, digit, '-', '.' or '_' becomes '_': the name comes from a guest and goes to logs and terminals.
func sanitize(dst, name []byte) []byte {
	for _, c := range name {
		if c == 0 || len(dst) == cap(dst) {
			break
		}
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.':
			dst = append(dst, c)
		default:
			dst = append(dst, '_')
		}
	}
	return dst
}

// question takes a DISCOVER or REQUEST. The address wanted is option 50, else the one that the guest has. w.mu is held.
func (w *Watch) question(m *message) {
	if m.Kind == DISCOVER {
		w.known.Counts.Discovers++
	} else {
		w.known.Counts.Requests++
	}
	w.ask()
	for _, ip := range []netip.Addr{m.Client, m.Requested} {
		if Usable(ip) {
			w.known.Wanted = ip
		}
	}
	if Usable(m.Client) { // it has the address and renews
		w.setIP(m.Client)
	}
}

// Restore makes w know what v says. It is called before any other method.
func (w *Watch) Restore(v Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = v
	w.waits.Store(!v.Waiting.IsZero())
	w.known.Hostname = v.Hostname[:min(len(v.Hostname), maxHostname)]
}
