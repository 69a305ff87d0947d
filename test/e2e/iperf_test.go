// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// TestIPerf has iperf3 between two guests that run nearly as fast as the machine, and between a guest and the host. A connection that
// mostly waits for lost frames to be sent again stays far below the limit, which a busy machine reaches.
func TestIPerf(t *testing.T) {
	const least = 50.0 // Mbit/s; an idle machine has 1,000 and more
	l := newLab(t)
	d := startDaemon(t, l, daemonNew, l.Path("socket_vmnet"))
	guests := boot(t, l, umlGuest(d.Socket, "one", 1), umlGuest(d.Socket, "two", 2))
	var leases []lab.Lease
	for _, g := range guests {
		leases = append(leases, dhcp(t, g))
	}
	require.NoError(t, guests[1].Background(t.Context(), "iperf3 -s", "iperf"))
	host, _, err := l.ServeIPerf(within(t, patience), "iperf3")
	require.NoError(t, err)
	for _, c := range []struct{ name, args string }{
		{"to a guest", "-c " + leases[1].IP},
		{"from a guest", "-R -c " + leases[1].IP},
		{"8 at once to a guest", "-P 8 -c " + leases[1].IP},
		{"to the host", "-c host.internal -p " + host},
		{"from the host", "-R -c host.internal -p " + host},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, guests[0], "iperf3 -J -t 2 "+c.args)
			report, err := lab.ParseIPerf([]byte(r.Output))
			require.NoError(t, err, r.Output)
			mbit := report.End.Received.BitsPerSecond / 1e6
			t.Logf("%.0f Mbit/s", mbit)
			assert.Greater(t, mbit, least)
		})
	}
}

// umlGuest is a User Mode Linux on a descriptor of exec's.
func umlGuest(socket, name string, number int) lab.GuestOptions {
	return lab.GuestOptions{
		Name: name, MAC: fmt.Sprintf("52:54:00:e2:e7:%02x", number), UML: true,
		Wrap: strings.Fields(daemonNew + " exec --dgram " + socket + " --"),
	}
}
