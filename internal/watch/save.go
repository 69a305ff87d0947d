// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"net"
	"net/netip"
)

// Saved is a Watch as it goes to another process.
type Saved struct {
	MAC      net.HardwareAddr `json:"mac,omitempty"`
	IP       netip.Addr       `json:"ip,omitzero"`
	Hostname string           `json:"hostname,omitempty"`
	Wanted   netip.Addr       `json:"wanted,omitzero"`
	DHCP     Kind             `json:"dhcp,omitempty"`
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
	w.ip, w.wanted, w.dhcp = v.IP, v.Wanted, v.DHCP
	if n := min(len(v.Hostname), maxHostname); n > 0 {
		w.hostname = v.Hostname[:n]
	}
}
