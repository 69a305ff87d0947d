// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
)

// TestIdentity: the network is told the address of a guest that speaks first, again when it comes back, and nothing of one
// that is silent.
func TestIdentity(t *testing.T) {
	silent := newRig(t, Options{})
	silent.dial(t)
	silent.attached(t, 1)
	assert.Equal(t, []string{""}, silent.net.identities())
	r := newPatientRig(t, Options{}, time.Hour) // speaking first must not depend on the processor
	for i := range 2 {
		c := r.dial(t)
		say(t, c, 7, "hello")
		r.attached(t, i+1)
		_ = c.Close()
		eventually(t, func() bool { return r.Clients() == 0 })
	}
	assert.Equal(t, []string{"02:00:00:00:00:07", "02:00:00:00:00:07"}, r.net.identities())
}

// TestSummaryNamesDrops: what the network dropped is in the client's last line, in both directions.
func TestSummaryNamesDrops(t *testing.T) {
	c := &Session{}
	c.settle(network.PortStats{
		Drops: map[network.DropReason]uint64{network.DropRefused: 1, network.DropExhausted: 2, network.DropDown: 3},
		Lost:  map[network.DropReason]uint64{network.DropOversize: 4},
	}, nil)
	c.settle(network.PortStats{Lost: map[network.DropReason]uint64{network.DropOversize: 1}}, nil)
	assert.Equal(t, []any{
		"drop_refused", uint64(1), "drop_exhausted", uint64(2), "drop_down", uint64(3), "lost_oversize", uint64(12),
	}, c.dropArgs(link.Stats{DropOversize: 7}))
}

// TestPeerOfAStreamClient: the log tells which process connected. (Of a peer that had gone before the server has it, macOS knows no process.)
func TestPeerOfAStreamClient(t *testing.T) {
	r := newRig(t, Options{})
	c := r.dial(t)
	// Of a peer that has gone, macOS knows no process.
	require.Eventually(t, func() bool { list, _ := r.Census(); return len(list) == 1 }, 20*time.Second, time.Millisecond)
	say(t, c, 1, "hello")
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { list, all := r.Census(); return all.Connects == 1 && len(list) == 0 }, 20*time.Second, time.Millisecond)
	r.shutdown() // the log is complete
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, "client connected") || strings.Contains(line, "client gone") {
			assert.Contains(t, line, "peer_uid=")
			assert.Contains(t, line, "peer_pid=")
		}
	}
	assert.Contains(t, r.log.String(), "client connected")
}
