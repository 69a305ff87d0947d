// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mapped is the address space of this process in bytes.
func mapped(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	var pages int
	_, err = fmt.Sscan(string(b), &pages)
	require.NoError(t, err)
	return pages * os.Getpagesize()
}

// TestIdleDatagramClientsHoldNoMemory has many clients that sent once: what they were read with, 2 MiB of address space
// each, was given back.
func TestIdleDatagramClientsHoldNoMemory(t *testing.T) {
	const clients = 300
	before := mapped(t)
	for range clients {
		daemon, client := datagramPair(t)
		r := startDatagram(t, daemon, DatagramOptions{})
		_, err := client.Write(frameOf("x"))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return r.Stats().ToNetFrames == 1 }, 20*time.Second, time.Millisecond)
	}
	grown := mapped(t) - before
	t.Logf("%d KiB more than before", grown>>10)
	assert.Less(t, grown, clients<<20)
}
