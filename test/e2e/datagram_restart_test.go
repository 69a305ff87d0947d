// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// A datagram guest on a path sends to the process that has the path by then. QEMU's socket there is not connected, so that nothing
// ends with the daemon, and QEMU does not get stuck when it was blocked, as it does on a stream. A guest on a passed
// descriptor has the other end of one that died with the daemon.

// testStop stops the daemon under guests that send all they can. Those with a way back send to the next daemon.
func (m *mixed) testStop(t *testing.T) {
	counter := m.count(t)
	for _, g := range m.guests {
		require.NoError(t, g.Background(t.Context(), "guest load eth0 "+countMAC+" 1400", "load"))
		m.sends(t, counter, g)
	}
	since := time.Now()
	t.Logf("stopped in %s", stop(t, m.daemon, syscall.SIGTERM))
	wholeEnd(t, counter, since)
	for _, f := range []string{m.socket, m.socket + ".d", m.lab.Path("pid")} {
		_, err := os.Lstat(f)
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
	m.start(t)
	again := m.count(t)
	defer again.Close()
	m.reconnected(t, since)
	for _, g := range m.back() {
		m.sends(t, again, g)
	}
	for _, g := range m.guests {
		_, err := g.EndBackground(within(t, patience), "load")
		require.NoError(t, err)
	}
	for _, g := range m.lost() {
		assert.Zero(t, again.From(g.MAC).Frames, "%s has no way to the new daemon", g.Name)
	}
	require.Empty(t, again.Faults())
}

// reconnected waits until the guest on the stream, which lost its connection after since, has one again.
func (m *mixed) reconnected(t *testing.T, since time.Time) {
	t.Helper()
	q := m.guests[onStream].QMP
	gone, err := q.WaitEvent(within(t, patience), lab.EventStreamDisconnected, since)
	require.NoError(t, err)
	_, err = q.WaitEvent(within(t, patience), lab.EventStreamConnected, gone.Time)
	require.NoError(t, err)
}

// back are the guests with a way to the next daemon: vmnet-helper hands it the socket again.
func (m *mixed) back() []*lab.Guest {
	if m.helper == nil {
		return m.guests[:onFD]
	}
	return []*lab.Guest{m.guests[onStream], m.guests[onPath], m.guests[onOther]}
}

// lost are the others.
func (m *mixed) lost() []*lab.Guest {
	if m.helper == nil {
		return m.guests[onFD:]
	}
	return m.guests[onFD : onFD+1]
}

// testDescriptorsEnded: a guest on a passed descriptor has lost its network for good, and nothing else. vmnet-helper has given its
// guest's to the next daemon.
func (m *mixed) testDescriptorsEnded(t *testing.T) {
	if m.helper != nil {
		for _, what := range []string{"the daemon at " + m.socket + " has stopped", "running again"} {
			_, err := m.helper.Output().WaitFor(within(t, patience), what)
			assert.NoError(t, err)
		}
	}
	each(t, m.lost(), func(_ int, g *lab.Guest) error {
		r, err := g.Run(within(t, time.Minute), "ping -c 2 -i 0.2 -W 1 "+gateway)
		assert.NotZero(t, r.Code, "%s still has a network", g.Name)
		assert.Contains(t, r.Output, "100% packet loss")
		return err
	})
}

// testStalledKill: a guest on a path that was blocked on a daemon without a processor, which is then killed, sends again.
// QEMU on a stream would not, see test/reconnect, so the guest there stays quiet.
func (m *mixed) testStalledKill(t *testing.T) {
	g := m.guests[onPath]
	counter := m.count(t)
	require.NoError(t, g.Background(t.Context(), "guest load eth0 "+countMAC+" 1400", "load"))
	m.sends(t, counter, g)
	require.NoError(t, m.daemon.Signal(syscall.SIGSTOP))
	time.Sleep(300 * time.Millisecond) // some frames are enough to fill the socket
	since := time.Now()
	_, err := m.daemon.Stop(within(t, patience), syscall.SIGKILL)
	require.NoError(t, err)
	counter.Close()
	m.start(t)
	counter = m.count(t)
	defer counter.Close()
	m.reconnected(t, since)
	m.sends(t, counter, g)
	_, err = g.EndBackground(within(t, patience), "load")
	require.NoError(t, err)
}

// testRestart: the guests with a way back take it by themselves and keep their addresses.
func (m *mixed) testRestart(t *testing.T, s os.Signal) {
	guests := m.back()
	took, err := m.daemon.Stop(within(t, patience), s)
	require.NoError(t, err)
	start := time.Now()
	m.start(t)
	t.Logf("%s took %s, the start %s", s, took, time.Since(start))
	for _, g := range guests { // one on a path that is silent is not known yet
		require.Eventually(t, func() bool {
			_, err = g.Ping(within(t, time.Minute), gateway)
			return err == nil
		}, 2*time.Minute, 50*time.Millisecond, "%s gets answers", g.Name)
	}
	for i, g := range guests {
		ping(t, g, m.leases[(i+1)%2].IP) // before any DHCP
	}
	for _, i := range []int{onPath, onStream} { // the other order than the first time
		assert.Equal(t, m.leases[i], dhcp(t, m.guests[i]))
	}
}
