// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// TestAntiSpoof has guests on a daemon with --anti-spoof: Linux does nothing that is refused, also over a restart of the daemon,
// until a guest is given the address of another.
func TestAntiSpoof(t *testing.T) {
	m := newMixed(t, daemonNew, "--anti-spoof", "--allow-uid=0")
	m.guests = boot(
		t, m.lab,
		lab.GuestOptions{
			Name: "stream", MAC: "52:54:00:e2:e4:01", QEMU: tools.NewQEMU, Netdev: lab.StreamNetdev(m.socket, reconnectEvery),
		},
		lab.GuestOptions{
			Name: "path", MAC: "52:54:00:e2:e4:02", QEMU: tools.QEMU,
			Netdev: lab.DgramPathNetdev(filepath.Join(m.socket+".d", "dgram", "sock")),
		},
	)
	m.leases = make([]lab.Lease, len(m.guests))
	t.Run("lease", m.testLease)
	if t.Failed() {
		return // nothing below can work
	}
	t.Run("ping", m.testPing)
	first := m.daemon
	t.Run("stop and start", func(t *testing.T) { m.testRestart(t, syscall.SIGTERM) })
	t.Run("nothing was refused", func(t *testing.T) {
		for _, d := range []*lab.Daemon{first, m.daemon} {
			assert.NotContains(t, d.Output().String(), "forged")
			assert.NotContains(t, d.Output().String(), "spoofed")
		}
	})
	t.Run("another's address", m.testForged)
}

// testForged gives the stream guest the path guest's address too.
func (m *mixed) testForged(t *testing.T) {
	forger, victim, ip := m.guests[onStream], m.guests[onPath], m.leases[onPath].IP
	run(t, forger, "ip addr add "+ip+"/32 dev eth0")
	r, err := forger.Run(within(t, time.Minute), "ping -c 3 -i 0.2 -W 1 -I "+ip+" "+gateway)
	require.NoError(t, err)
	assert.NotZero(t, r.Code, r.Output)
	assert.Contains(t, r.Output, "100% packet loss")
	_, err = m.daemon.Output().WaitFor(within(t, time.Minute), "frames with forged addresses are dropped")
	require.NoError(t, err, m.daemon.Output())
	for _, g := range []*lab.Guest{forger, victim} {
		_, err = g.Ping(within(t, time.Minute), gateway)
		assert.NoError(t, err, "as before")
	}
}
