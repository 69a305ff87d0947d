// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// reconnectEvery is QEMU's reconnect-ms in these tests.
const reconnectEvery = 500 * time.Millisecond

// reconnect is a pair of guests that outlive their daemon. How long they are without it under load, and whether they send
// again, is in test/reconnect.
type reconnect struct {
	lab    *lab.Lab
	socket string
	daemon *lab.Daemon
	guests []*lab.Guest
	leases [2]lab.Lease
	// program is the daemon that is stopped and started.
	program string
}

// TestReconnect stops, kills and replaces the daemon under running guests.
func TestReconnect(t *testing.T) {
	r := newReconnect(t, daemonNew)
	t.Run("stop and start", func(t *testing.T) { r.testRestart(t, syscall.SIGTERM) })
	t.Run("kill and start", func(t *testing.T) { r.testRestart(t, syscall.SIGKILL) })
	t.Run("no DHCP when disabled", r.testDisableDHCP)
	t.Run("host mode", r.testHostMode)
}

// TestReconnectOnVmnet is the same with the vmnet back end on the simulator, where a killed owner's subnet stays busy for a
// while.
func TestReconnectOnVmnet(t *testing.T) {
	r := newReconnect(t, daemonSim)
	t.Run("stop and start", func(t *testing.T) { r.testRestart(t, syscall.SIGTERM) })
	t.Run("kill and start", func(t *testing.T) { r.testRestart(t, syscall.SIGKILL) })
}

// newReconnect starts program and boots the guests.
func newReconnect(t *testing.T, program string) *reconnect {
	t.Helper()
	l := newLab(t)
	r := &reconnect{lab: l, socket: l.Path("socket_vmnet"), program: program}
	r.start(t, program)
	netdev := lab.StreamNetdev(r.socket, reconnectEvery)
	r.guests = boot(
		t, l,
		lab.GuestOptions{Name: "one", MAC: "52:54:00:e2:e1:01", Netdev: netdev, QEMU: tools.NewQEMU},
		lab.GuestOptions{Name: "two", MAC: "52:54:00:e2:e1:02", Netdev: netdev, QEMU: tools.NewQEMU},
	)
	for i, g := range r.guests {
		lease, err := g.DHCP(within(t, time.Minute))
		require.NoError(t, err)
		r.leases[i] = lease
	}
	return r
}

func (r *reconnect) start(t *testing.T, program string, args ...string) {
	t.Helper()
	r.daemon = startDaemon(t, r.lab, program, r.socket, args...)
}

// restart replaces the daemon and waits until both guests are connected to the new one.
func (r *reconnect) restart(t *testing.T, s os.Signal, program string, args ...string) {
	t.Helper()
	since := time.Now()
	_, err := r.daemon.Stop(within(t, patience), s)
	require.NoError(t, err)
	r.start(t, program, args...)
	r.reconnected(t, since)
}

func (r *reconnect) reconnected(t *testing.T, since time.Time) {
	t.Helper()
	for _, g := range r.guests {
		gone, err := g.QMP().WaitEvent(within(t, patience), lab.EventStreamDisconnected, since)
		require.NoError(t, err, g.Name)
		back, err := g.QMP().WaitEvent(within(t, patience), lab.EventStreamConnected, gone.Time)
		require.NoError(t, err, g.Name)
		t.Logf("%s was disconnected for %s", g.Name, back.Time.Sub(gone.Time))
	}
}

// testRestart: the guests go on with the addresses they have, and get the same ones when they ask.
func (r *reconnect) testRestart(t *testing.T, s os.Signal) {
	r.restart(t, s, r.program)
	for i, g := range r.guests {
		for _, to := range []string{gateway, r.leases[1-i].IP} {
			_, err := g.Ping(within(t, time.Minute), to)
			require.NoError(t, err, "before any DHCP")
		}
	}
	// In the other order, as the daemon gives a newcomer the first address that is free.
	for _, i := range []int{1, 0} {
		lease, err := r.guests[i].DHCP(within(t, time.Minute))
		require.NoError(t, err)
		assert.Equal(t, r.leases[i], lease)
	}
}

func (r *reconnect) testDisableDHCP(t *testing.T) {
	r.restart(t, syscall.SIGTERM, r.program, "--vmnet-disable-dhcp")
	g := r.guests[0]
	res, err := g.Run(within(t, time.Minute), "dhcp 2")
	require.NoError(t, err)
	assert.NotZero(t, res.Code)
	assert.Contains(t, res.Output, "E2E dhcp=none")
	// Addresses of one's own still work.
	run(t, g, fmt.Sprintf("ip addr add %s/24 dev eth0", r.leases[0].IP))
	for _, to := range []string{gateway, r.leases[1].IP} {
		_, err := g.Ping(within(t, time.Minute), to)
		require.NoError(t, err)
	}
}

// testHostMode: DHCP is there, the way out is not, and the host's loopback only if it was asked for. The same guest has it again in shared mode.
func (r *reconnect) testHostMode(t *testing.T) {
	outside, err := lab.OutsideAddress()
	require.NoError(t, err)
	p, out := page(t, "127.0.0.1:0"), page(t, net.JoinHostPort(outside.String(), "0"))
	g := r.guests[0]
	outURL := fmt.Sprintf("http://%s/", net.JoinHostPort(outside.String(), strconv.Itoa(out.Port())))

	r.restart(t, syscall.SIGTERM, daemonNew, "--vmnet-mode=host")
	lease, err := g.DHCP(within(t, time.Minute))
	require.NoError(t, err)
	t.Logf("lease in host mode: %+v", lease)
	run(t, g, "ip route replace default via "+gateway) // whatever the lease says
	hostURL := fmt.Sprintf("http://%s:%d/", alias, p.Port())
	_, _, err = g.Fetch(within(t, time.Minute), hostURL)
	require.Error(t, err)
	_, _, err = g.Fetch(within(t, time.Minute), outURL+"host-mode")
	require.Error(t, err)

	r.restart(t, syscall.SIGTERM, daemonNew, "--vmnet-mode=host", "--host-loopback=on")
	_, err = g.DHCP(within(t, time.Minute))
	require.NoError(t, err)
	_, _, err = g.Fetch(within(t, time.Minute), hostURL)
	require.NoError(t, err)

	r.restart(t, syscall.SIGTERM, daemonNew)
	_, err = g.DHCP(within(t, time.Minute))
	require.NoError(t, err)
	_, _, err = g.Fetch(within(t, time.Minute), outURL+"shared-mode")
	require.NoError(t, err)
	assert.Equal(t, []string{"/shared-mode"}, out.Paths())
}
