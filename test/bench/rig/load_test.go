// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/cbuild"
)

// testRig compiles the C programs; the daemon under test is never started.
func testRig(t *testing.T) *Rig {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	r, err := New(t.Context(), Options{Daemon: self, Warm: 20 * time.Millisecond, Time: 200 * time.Millisecond})
	cbuild.Must(t, "", err)
	t.Cleanup(r.Close)
	return r
}

func TestLoadThroughEveryRelay(t *testing.T) {
	r := testRig(t)
	const passed = Passed + Passed
	for _, tt := range []struct {
		name, relay string
		load        Load
	}{
		{"eight to one", Floor, Load{Clients: 9, Fan: true, Window: OpenLoop}},
		{"floor", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames}},
		{"floor, a frame a write, among idle ones", Floor, Load{Clients: 6, Pairs: 1}},
		{"floor, two pairs", Floor, Load{Clients: 4, Pairs: 2, Batch: BatchFrames}},
		{"floor, round trips beside a flow", Floor, Load{Clients: 4, Pairs: 2, Batch: BatchFrames, Echo: true}},
		{"floor, 64 bytes", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames}.WithFrame(64)},
		{"floor, 65550 bytes", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames}.WithFrame(65550)},
		{"old way, 8 clients", Old, Load{Clients: 8, Pairs: 1}},
		{"passed, 65550 bytes", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: passed}.WithFrame(65550)},
		{"paths, 65550 bytes", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: Unconnected + Connected}.WithFrame(65550)},
		{"passed", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: passed}},
		{"passed, round trips", Floor, Load{Clients: 2, Pairs: 1, Kinds: passed, Echo: true}},
		{"to passed", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: Stream + Passed}},
		{"from passed, 9000 bytes", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: Passed + Stream}.WithFrame(9000)},
		{"to path", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: Stream + Unconnected}},
		{"from path", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: Unconnected + Stream}},
		{"to connected", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: Stream + Connected}},
		{"from connected", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: Connected + Stream}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.load.Frames = 20 // however busy the machine is
			res, err := r.Measure(t.Context(), tt.relay, tt.load)
			require.NoError(t, err)
			assert.Positive(t, res.RelayCPUNS)
			assert.Positive(t, res.AnonymousKiB)
			assert.Greater(t, res.ResidentKiB, res.AnonymousKiB)
			assert.Positive(t, res.Switches)
			if tt.load.Echo {
				assert.Positive(t, res.RoundTrips)
				assert.Positive(t, res.RTTP50NS)
				assert.LessOrEqual(t, res.RTTP50NS, res.RTTP99NS)
				assert.Equal(t, tt.load.Pairs > 1, res.Received > 0, "%d frames of flows", res.Received)
				return
			}
			assert.Positive(t, res.Received)
			assert.Zero(t, res.Lost)
			assert.Greater(t, res.Received, int64(2*tt.load.Window), "a window is acknowledged before its sender gives it up")
		})
	}
}
