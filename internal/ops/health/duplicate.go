// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// claimTime is how close in time two guests must claim an address for both to have it: a guest that was off for long may have lost its
// address to another one by right. A guest claims its address in each of its ARP requests, every 15 to 45 s on Linux.
const claimTime = 60 * time.Second

// leaveTime is what a client that was left behind may need to be noticed. One that has sent nothing since the younger came does not
// count as sending after that.
const leaveTime = 5 * time.Second

// by sorts the clients that are not leaving by a value.
func by[K comparable](v *view, value func(*status.Client) (K, bool)) map[K][]*status.Client {
	users := map[K][]*status.Client{}
	for _, c := range v.which(func(c *status.Client) bool { return c.State != status.StateLeaving }) {
		if k, ok := value(c); ok {
			users[k] = append(users[k], c)
		}
	}
	return users
}

// duplicateIP finds addresses that several guests use, or that are the gateway's.
func duplicateIP(v *view) {
	users := by(v, func(c *status.Client) (netip.Addr, bool) { return c.IP, c.IP.IsValid() })
	for _, ip := range slices.SortedFunc(maps.Keys(users), netip.Addr.Compare) {
		list := users[ip]
		if whose := v.ours(ip); whose != "" {
			v.found(status.DuplicateIP, status.Error, list, []string{"Give the guest another address: DHCP, or a static one" + v.inSubnet() + "."},
				"%s is %s address, and %s %s it: others may lose their way to the outside.", ip, whose, eachName(list), verb(list, "uses", "use")).of = ip.String()
		} else if list = v.quarrel(ip, list); list != nil {
			given := ""
			fix := []string{
				"Give all but one of them another address. If they are copies of one image, they may have its static address, or its identity towards DHCP (/etc/machine-id).",
			}
			if d := v.Network.DHCP; d != nil {
				if i := slices.IndexFunc(d.Leases, func(l status.Lease) bool { return l.IP == ip }); i >= 0 {
					given = " DHCP gave it to " + d.Leases[i].MAC + "."
					fix = []string{"Give the other one an address by DHCP, or a static one outside of the range that is leased, and not the same for two."}
				}
			}
			v.found(status.DuplicateIP, status.Error, list, fix, "%s is used by %d guests at the same time: %s.%s", ip, len(list), eachName(list), given).of = ip.String()
		}
	}
}

// ours names what has ip on the host's side; empty: nothing.
func (v *view) ours(ip netip.Addr) string {
	n := &v.Network
	switch {
	case n.Mode == bridged:
		return ""
	case ip == n.Gateway:
		return "the gateway's"
	case n.Usernet != nil && ip == n.Usernet.HostAddress:
		return "the host's"
	}
	return ""
}

// quarrel are the clients that use ip, if that is more than one guest now. A guest that has moved from one client to another, by its MAC
// address, is one.
func (v *view) quarrel(ip netip.Addr, users []*status.Client) (list []*status.Client) {
	var claims []time.Time
	for _, c := range users {
		if slices.ContainsFunc(list, func(o *status.Client) bool { return o.MAC == c.MAC }) {
			continue
		}
		list = append(list, c)
		if !c.IPSeen.IsZero() {
			claims = append(claims, c.IPSeen)
		}
	}
	if len(list) < 2 {
		return nil
	}
	if v.was(status.DuplicateIP, ip.String()) {
		return list
	}
	slices.SortFunc(claims, time.Time.Compare)
	for i := 1; i < len(claims); i++ {
		if claims[i].Sub(claims[i-1]) <= claimTime {
			return list
		}
	}
	v.suspicious = true
	return nil
}

// duplicateMAC finds clients that send from one address. That a guest's former connection has not ended yet is none: it sends
// nothing.
func duplicateMAC(v *view) {
	users := by(v, func(c *status.Client) (string, bool) { return c.MAC, c.MAC != "" })
	for _, mac := range slices.SortedFunc(maps.Keys(users), cmp.Compare[string]) {
		list := users[mac]
		switch {
		case len(list) < 2:
			continue
		case !v.was(status.DuplicateMAC, mac) && !v.bothSend(list):
			v.suspicious = true
			continue
		}
		f := v.found(status.DuplicateMAC, status.Error, list, []string{
			"Give every guest a MAC address of its own: copies of a virtual machine have that of the original.",
			"If one of them is a connection that its machine has left behind:", v.kick(list),
		}, "%s is the MAC address of %d clients that are connected at the same time: %s; frames for one of them reach the other.", mac, len(list), eachName(list))
		f.of = mac
	}
}

// bothSend reports whether two of list have sent since a former look, the younger one being there long enough for the older one to have
// ended.
func (v *view) bothSend(list []*status.Client) bool {
	n := 0
	for _, c := range list {
		if g := v.grew(c, func(c counters) uint64 { return c.sent }); g.n > 0 && (g.known || g.news) {
			n++
		}
	}
	youngest := slices.MaxFunc(list, func(a, b *status.Client) int { return a.Connected.Compare(b.Connected) })
	return n >= 2 && v.Now.Sub(youngest.Connected) >= leaveTime
}
