// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"net"
	"net/netip"
	"time"
)

// Saved is a Watch as it goes to another process.
type Saved struct {
	MAC      net.HardwareAddr `json:"mac,omitempty"`
	IP       netip.Addr       `json:"ip,omitzero"`
	Claimed  time.Time        `json:"claimed,omitzero"`
	Hostname string           `json:"hostname,omitempty"`
	Wanted   netip.Addr       `json:"wanted,omitzero"`
	DHCP     Kind             `json:"dhcp,omitempty"`
	Counts   Counts           `json:"counts,omitzero"`
	Waiting  time.Time        `json:"waiting,omitzero"`
	Asked    time.Time        `json:"asked,omitzero"`
}

// Save is everything known now.
func (w *Watch) Save() Saved { return Saved(w.Snapshot()) }

// Restore makes w know what v says. It is called before any other method.
func (w *Watch) Restore(v Saved) {
	if len(v.MAC) == 6 {
		w.mac.Store(mac48(v.MAC))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ip, w.claimed, w.wanted, w.dhcp = v.IP, v.Claimed, v.Wanted, v.DHCP
	w.counts, w.waiting, w.asked = v.Counts, v.Waiting, v.Asked
	if n := min(len(v.Hostname), maxHostname); n > 0 {
		w.hostname = v.Hostname[:n]
	}
}
