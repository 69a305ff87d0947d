// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
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
	host := serveIPerf(t, l)
	for _, c := range []struct{ name, args string }{
		{"to a guest", "-c " + leases[1].IP},
		{"from a guest", "-R -c " + leases[1].IP},
		{"8 at once to a guest", "-P 8 -c " + leases[1].IP},
		{"to the host", "-c host.internal -p " + host},
		{"from the host", "-R -c host.internal -p " + host},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, guests[0], "iperf3 -J -t 2 "+c.args)
			var report struct {
				End struct {
					Received struct {
						Bits float64 `json:"bits_per_second"`
					} `json:"sum_received"`
				}
			}
			require.NoError(t, json.Unmarshal([]byte(r.Output), &report), r.Output)
			mbit := report.End.Received.Bits / 1e6
			t.Logf("%.0f Mbit/s", mbit)
			assert.Greater(t, mbit, least)
		})
	}
}

// serveIPerf runs iperf3's server on the host's loopback and returns its port.
func serveIPerf(t *testing.T, l *lab.Lab) (port string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port = strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
	require.NoError(t, free.Close())
	server, err := l.Start("iperf3", "iperf3", "-s", "--forceflush", "-B", "127.0.0.1", "-p", port)
	require.NoError(t, err)
	_, err = server.Output().WaitFor(within(t, patience), "Server listening on "+port)
	require.NoError(t, err)
	return port
}

// umlGuest is a User Mode Linux on a descriptor of exec's.
func umlGuest(socket, name string, number int) lab.GuestOptions {
	return lab.GuestOptions{
		Name: name, MAC: fmt.Sprintf("52:54:00:e2:e7:%02x", number), UML: true,
		Wrap: strings.Fields(daemonNew + " exec --dgram " + socket + " --"),
	}
}
