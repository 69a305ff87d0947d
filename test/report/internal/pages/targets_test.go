// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"slices"
	"testing"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/figures"
)

// flows are rounds of a relay with so many frames in a second, and their CPU time in nanoseconds each.
func flows(relay string, n int, frames, cost uint64) (all []rounds.Round) {
	for i := range n {
		all = append(all, rounds.Round{
			Series: "pair", Setup: relay + " 2 batch", Round: i, Relay: relay, Transport: "stream", Sender: "batch",
			Direction: rounds.ClientToClient, Frame: 1514, Clients: 2, Active: 2, Seconds: 1, Frames: frames,
			CPUSeconds: float64(cost*frames) / 1e9,
		})
	}
	return all
}

func TestVerdicts(t *testing.T) {
	i := slices.IndexFunc(targets, func(t target) bool { return t.id == "floor" })
	require.GreaterOrEqual(t, i, 0)
	rate := targets[i]
	wild := flows(rounds.Daemon, 9, 1000, 500)
	wild[3].Frames *= 4
	wild[3].CPUSeconds *= 4
	for _, c := range []struct {
		name          string
		daemon, floor []rounds.Round
		verdict, how  string
	}{
		{"met", flows(rounds.Daemon, 9, 960, 500), flows(rounds.Floor, 9, 1000, 100), "met", "best"},
		{"just met", flows(rounds.Daemon, 9, 950, 500), flows(rounds.Floor, 9, 1000, 100), "met", "best"},
		{"missed", flows(rounds.Daemon, 9, 949, 500), flows(rounds.Floor, 9, 1000, 500), "**missed**", "best"},
		{"too few rounds", flows(rounds.Daemon, 8, 1000, 500), flows(rounds.Floor, 9, 1000, 500), "met †", "best"},
		{"by CPU time, met", wild, flows(rounds.Floor, 9, 9000, 500), "met", "CPU"},
		{"by CPU time, missed", wild, flows(rounds.Floor, 9, 1, 400), "**missed**", "CPU"},
		{"nothing beside it", flows(rounds.Daemon, 9, 1000, 500), nil, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := &figures.Run{Name: "a", File: sampleFile("a", slices.Concat(c.daemon, c.floor))}
			results, err := rate.results([]*figures.Run{run})
			require.NoError(t, err)
			if c.verdict == "" {
				assert.Empty(t, results)
				return
			}
			require.Len(t, results, 1)
			assert.Equal(t, c.verdict, results[0].verdict())
			assert.Equal(t, c.how, results[0].how)
		})
	}
}

// TestRatiosAreOfOneRun: a daemon of one run is never held against a relay of another.
func TestRatiosAreOfOneRun(t *testing.T) {
	runs := []*figures.Run{
		{Name: "a", File: sampleFile("a", flows(rounds.Daemon, 9, 1000, 500))},
		{Name: "b", File: sampleFile("b", flows(rounds.Floor, 9, 1000, 500))},
	}
	text, err := summary(runs)
	require.NoError(t, err)
	assert.Contains(t, text, "0 of 18 targets are met, 0 missed, 18 not measured")
}

func TestEveryTargetIsMeasuredInTheSample(t *testing.T) {
	for _, target := range targets {
		results, err := target.results(sampleRuns())
		require.NoError(t, err)
		assert.NotEmpty(t, results, target.id)
	}
}
