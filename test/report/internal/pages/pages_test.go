// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/figures"
	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/output"
)

var update = flag.Bool("update", false, "write testdata/golden anew")

const (
	golden = "testdata/golden"
	peers  = "../../../../docs/performance/peers.json"
)

// sampleNotes are figures that no round has.
var sampleNotes = Notes{{ID: "kernel", Value: "89 %", What: "of the time is the kernel's", Command: "go run ./test/bench --profile perf", Commit: "0123abc", Date: "2026-01-02"}}

// sampleRuns are invented runs.
func sampleRuns() []*figures.Run {
	return []*figures.Run{{Name: "bench", File: sampleBench()}, {Name: "fake", File: sampleFake()}, {Name: "guests", File: sampleGuests()}}
}

func makeSample(t *testing.T, runs []*figures.Run) output.Files {
	t.Helper()
	published, err := LoadPeers(peers)
	require.NoError(t, err)
	files, err := Make(Source{Runs: runs, Peers: published, Notes: sampleNotes, Raw: "raw"})
	require.NoError(t, err)
	return files
}

// TestGolden compares with what is committed. To look at it: rsvg-convert or a browser.
func TestGolden(t *testing.T) {
	files := makeSample(t, sampleRuns())
	if *update {
		require.NoError(t, output.Write(golden, files))
	}
	require.NoError(t, output.Compare(golden, files), "if that is right: go test ./internal/pages -update")
}

func TestDeterministic(t *testing.T) {
	first := makeSample(t, sampleRuns())
	second := makeSample(t, sampleRuns())
	assert.Equal(t, first, second)
}
