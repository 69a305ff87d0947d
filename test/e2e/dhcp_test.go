// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// TestDHCPClients has the clients that Linux distributions use ask for a lease, for the same one again, and give it back. udhcpc is in
// TestNetwork, iPXE in TestIPXE.
func TestDHCPClients(t *testing.T) {
	l := newLab(t)
	d := startDaemon(t, l, daemonNew, l.Path("socket_vmnet"))
	for i, client := range []string{"dhclient", "dhcpcd", "networkd"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			g := boot(t, l, umlGuest(d.Socket, client, i))[0]
			lease := func(do string) lab.Lease {
				r := run(t, g, "client "+client+" "+do)
				got := lab.LeaseOf(r.Values())
				want := lab.Lease{IP: got.IP, Router: gateway, DNS: gateway, Server: gateway, Seconds: "3600"}
				require.Equal(t, want, got, "%s\n%s", do, r.Output)
				ping(t, g, gateway)
				return got
			}
			first := lease("get")
			assert.Equal(t, first, lease("renew"))
			run(t, g, "client "+client+" release")
			assert.Equal(t, first, lease("get"), "the address is free again, and kept for the guest")
		})
	}
}
