// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
)

func TestUsersAreCounted(t *testing.T) {
	var u users
	a, b := peercred.Peer{Known: true, UID: 501}, peercred.Peer{Known: true}
	u.begin(a)
	u.begin(a)
	u.begin(b)
	u.begin(peercred.Peer{})
	u.refuse(b)
	u.end(a, link.Stats{ToNetFrames: 1, ToNetBytes: 2, ToClientFrames: 3, ToClientBytes: 4})
	u.end(peercred.Peer{}, link.Stats{ToNetFrames: 9})
	assert.Equal(t, UserStats{
		UID: 501, Clients: 1, Accepted: 2, FramesToNet: 1, BytesToNet: 2, FramesToClient: 3, BytesToClient: 4,
	}, *u.byUID[501])
	assert.Equal(t, UserStats{Clients: 1, Accepted: 1, Refused: 1}, *u.byUID[0], "root is not the unknown user")
	assert.Equal(t, UserStats{Accepted: 1, FramesToNet: 9}, u.other)
}

// TestUsersAreBounded: those beyond the table are counted together, and nothing is lost.
func TestUsersAreBounded(t *testing.T) {
	s := &Server{}
	const all = 2 * maxUsers
	for range 3 {
		for uid := range uint32(all) {
			s.users.begin(peercred.Peer{Known: true, UID: uid})
		}
	}
	for uid := range uint32(all) {
		s.users.end(peercred.Peer{Known: true, UID: uid}, link.Stats{ToNetFrames: 1})
	}
	list := s.Users()
	require.Len(t, list, maxUsers+1)
	for i, n := range list[:maxUsers] {
		require.Equal(t, UserStats{UID: uint32(i), Clients: 2, Accepted: 3, FramesToNet: 1}, n)
	}
	assert.Equal(t, UserStats{Other: true, Clients: 2 * maxUsers, Accepted: 3 * maxUsers, FramesToNet: maxUsers}, list[maxUsers])
}

// TestPeerOfAStreamClient: the log and the counters tell who connected.
func TestPeerOfAStreamClient(t *testing.T) {
	r := newRig(t, Options{})
	c := r.dial(t)
	say(t, c, 1, "hello")
	me := uint32(os.Geteuid())
	require.Eventually(t, func() bool {
		list := r.Users()
		return len(list) == 1 && list[0].UID == me && list[0].Clients == 1 && list[0].FramesToNet == 1
	}, 20*time.Second, time.Millisecond, "frames of a client that is there count")
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return r.Users()[0].Clients == 0 }, 20*time.Second, time.Millisecond)
	r.shutdown() // the log is complete
	list := r.Users()
	require.Len(t, list, 1)
	assert.Zero(t, list[0].Clients)
	assert.Equal(t, uint64(1), list[0].Accepted)
	assert.Equal(t, uint64(1), list[0].FramesToNet)
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, "client connected") || strings.Contains(line, "client gone") {
			assert.Contains(t, line, "peer_uid=")
			assert.Contains(t, line, "peer_pid=")
		}
	}
	assert.Contains(t, r.log.String(), "client connected")
}
