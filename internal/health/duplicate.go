// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// claimTime is how close in time two guests must claim an address for both to have it: a guest that was off for long may have lost its
// address to another one by right. Who uses an address claims it in each of its ARP requests, every 15 to 45 s on Linux.
const claimTime = 60 * time.Second

// duplicateIP finds addresses that several guests use, or that are the gateway's.
func duplicateIP(v *view) (found []finding) {
	users, order := map[netip.Addr][]*status.Client{}, []netip.Addr{}
	for i := range v.Clients {
		c := &v.Clients[i]
		if !c.IP.IsValid() || c.State == status.StateLeaving {
			continue
		}
		if users[c.IP] == nil {
			order = append(order, c.IP)
		}
		users[c.IP] = append(users[c.IP], c)
	}
	slices.SortFunc(order, netip.Addr.Compare)
	for _, ip := range order {
		if whose := v.ours(ip); whose != "" {
			found = append(found, v.gatewaysAddress(ip, whose, users[ip]))
		} else if list := v.quarrel(ip, users[ip]); list != nil {
			found = append(found, v.duplicate(ip, list))
		}
	}
	return found
}

// ours names who has ip on the host's side; empty: nobody.
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

// quarrel is who uses ip, if that is more than one guest now. A guest that has moved from one client to another, by its MAC address, is
// one.
func (v *view) quarrel(ip netip.Addr, users []*status.Client) []*status.Client {
	var list []*status.Client
	for _, c := range users {
		if !slices.ContainsFunc(list, func(o *status.Client) bool { return o.MAC == c.MAC }) {
			list = append(list, c)
		}
	}
	if len(list) < 2 {
		return nil
	}
	if v.was(status.DuplicateIP, ip.String()) {
		return list
	}
	var claims []time.Time
	for _, c := range list {
		if !c.IPSeen.IsZero() {
			claims = append(claims, c.IPSeen)
		}
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

func (v *view) duplicate(ip netip.Addr, list []*status.Client) finding {
	text := fmt.Sprintf("%s is used by %d guests at the same time: %s.", ip, len(list), eachName(list))
	fix := []string{
		"Give all but one of them another address. If they are copies of one image, they may have its static address, or its identity towards DHCP (/etc/machine-id).",
	}
	if mac := v.leasedTo(ip); mac != "" {
		text += fmt.Sprintf(" DHCP gave it to %s.", mac)
		fix = []string{"Give the other one an address by DHCP, or a static one outside of the range that is leased, and not the same for two."}
	}
	return finding{Problem: status.Problem{
		Code: status.DuplicateIP, Severity: status.Error, Clients: ids(list), Text: text, Fix: fix,
	}, of: ip.String()}
}

// leasedTo is who has ip by DHCP; empty: nobody, or it is not known.
func (v *view) leasedTo(ip netip.Addr) string {
	if d := v.Network.DHCP; d != nil {
		for _, l := range d.Leases {
			if l.IP == ip {
				return l.MAC
			}
		}
	}
	return ""
}

func (v *view) gatewaysAddress(ip netip.Addr, whose string, list []*status.Client) finding {
	return finding{Problem: status.Problem{
		Code: status.DuplicateIP, Severity: status.Error, Clients: ids(list),
		Text: fmt.Sprintf("%s is %s address, and %s %s it: others may lose their way to the outside.", ip, whose, eachName(list), verb(list, "uses", "use")),
		Fix:  []string{"Give the guest another address: DHCP, or a static one" + v.inSubnet() + "."},
	}, of: ip.String()}
}

// eachName names all of list, or the first of them.
func eachName(list []*status.Client) string {
	text := ""
	for i, c := range list {
		switch {
		case i == maxNamed:
			return text + fmt.Sprintf(" and %d more", len(list)-i)
		case i > 0 && i == len(list)-1:
			text += " and "
		case i > 0:
			text += ", "
		}
		text += name(c)
	}
	return text
}

// duplicateMAC finds clients that send from one address. That a guest's former connection has not ended yet is none: it sends
// nothing.
func duplicateMAC(v *view) (found []finding) {
	users, order := map[string][]*status.Client{}, []string{}
	for i := range v.Clients {
		c := &v.Clients[i]
		if c.MAC == "" || c.State == status.StateLeaving {
			continue
		}
		if users[c.MAC] == nil {
			order = append(order, c.MAC)
		}
		users[c.MAC] = append(users[c.MAC], c)
	}
	slices.Sort(order)
	for _, mac := range order {
		list := users[mac]
		if len(list) < 2 {
			continue
		}
		if !v.was(status.DuplicateMAC, mac) && !v.bothSend(list) {
			v.suspicious = true
			continue
		}
		found = append(found, finding{Problem: status.Problem{
			Code: status.DuplicateMAC, Severity: status.Error, Clients: ids(list),
			Text: fmt.Sprintf("%s is the MAC address of %d clients that are connected at the same time: %s; frames for one of them reach the other.",
				mac, len(list), eachName(list)),
			Fix: []string{
				"Give every guest a MAC address of its own: copies of a virtual machine have that of the original.",
				"If one of them is a connection that its machine has left behind:",
				command("socket_vmnet2 kick %d %s", list[0].ID, shell.Quote(v.Daemon.Socket)),
			},
		}, of: mac})
	}
	return found
}

// bothSend reports whether two of list have sent within a minute, the younger one being there long enough for the older one to have
// ended.
func (v *view) bothSend(list []*status.Client) bool {
	n := 0
	for _, c := range list {
		if t := v.active[c.ID].active; !t.IsZero() && v.Now.Sub(t) <= recent {
			n++
		}
	}
	youngest := slices.MinFunc(list, func(a, b *status.Client) int { return b.Connected.Compare(a.Connected) })
	return n >= 2 && v.Now.Sub(youngest.Connected) >= leaveTime
}

// leaveTime is what a client that was left behind may need to be noticed. One that has sent nothing since the younger came does not
// count as sending after that.
const leaveTime = 5 * time.Second
