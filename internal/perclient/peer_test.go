// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPeerOfAStreamClient: the log tells who connected. (Of a peer that had gone before the server has it, macOS knows no process.)
func TestPeerOfAStreamClient(t *testing.T) {
	r := newRig(t, Options{})
	c := r.dial(t)
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
