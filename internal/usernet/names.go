// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"net/netip"
	"strings"
)

// Domain is where the name server has the guests, by the name that each told the DHCP server. DHCP tells guests to look there for
// names without a dot.
const Domain = "vmnet.internal"

// hostName is the host's. Without an alias it has no address, and nobody else is asked for one.
const hostName = "host.internal"

// namesTaken are the names in Domain that records have. A record is never shadowed by a guest.
func namesTaken(records map[string]netip.Addr) map[string]bool {
	taken := map[string]bool{}
	for name := range records {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		if label, ok := strings.CutSuffix(name, "."+Domain); ok {
			taken[label] = true
		}
	}
	return taken
}
