// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// patience is how long anything may take: a machine with much else to do has no time for a guest for seconds.
const patience = time.Minute

// count is a client of the daemon on socket that counts what comes from guests.
func count(t *testing.T, l *lab.Lab, socket string) *lab.Peer {
	t.Helper()
	c, err := l.Count(within(t, patience), socket, mustMAC(t, countMAC))
	require.NoError(t, err)
	return c
}

// load has g send all it can to a MAC address for a second.
func load(t *testing.T, g *lab.Guest, to string) {
	t.Helper()
	run(t, g, fmt.Sprintf("timeout 1 guest load eth0 %s 300; [ $? = 143 ]", to))
}

// sendsTo has g send until frames have arrived at another guest.
func sendsTo(t *testing.T, g, to *lab.Guest) {
	t.Helper()
	received := func() int {
		n, err := strconv.Atoi(strings.TrimSpace(run(t, to, "cat /sys/class/net/eth0/statistics/rx_packets").Output))
		require.NoError(t, err)
		return n
	}
	before := received()
	for end := time.Now().Add(patience); received() <= before+aliveFrames; {
		require.True(t, time.Now().Before(end), "frames of %s arrive at %s", g.Name, to.Name)
		load(t, g, to.MAC)
	}
}

// sendsToCounter is the same with a client that counts.
func sendsToCounter(t *testing.T, g *lab.Guest, c *lab.Peer) {
	t.Helper()
	for end := time.Now().Add(patience); c.From(g.MAC).Frames <= aliveFrames; {
		require.True(t, time.Now().Before(end), "frames of %s that were meant for the client that counts", g.Name)
		load(t, g, countMAC)
	}
}

// wholeEnd waits for the end of a client's connection. The last thing that came must be a whole frame.
func wholeEnd(t *testing.T, c *lab.Peer, since time.Time) {
	t.Helper()
	require.Eventually(t, func() bool { return !c.Ended(since).IsZero() }, patience, time.Millisecond)
	require.Empty(t, c.Faults())
	c.Close()
}
