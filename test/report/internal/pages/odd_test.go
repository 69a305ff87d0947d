// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/figures"
)

// oddRound is one that a measurement could write on a bad day, or a file could say that nobody measured.
func oddRound(r *rand.Rand, series string) rounds.Round {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	number := func() uint64 {
		return []uint64{0, 0, 1, 1000, 1 << 40, math.MaxUint64}[r.IntN(6)]
	}
	return rounds.Round{
		Series: series, Setup: pick("", "a", "x daemon batch y", "<b>|`"), Round: r.IntN(3),
		Relay:     pick(rounds.Daemon, rounds.Floor, rounds.Old, rounds.Gvproxy, rounds.Direct, rounds.DaemonVmnet, rounds.VmnetC, "n<e>w|"),
		Transport: pick("", "stream", "passed/stream", "|"), Sender: pick("", "single", "batch", "tcp"),
		Direction: pick("", rounds.ClientToClient, rounds.HostToClient), Frame: []int{0, 1, 64, 1514, math.MaxInt32}[r.IntN(5)],
		Clients: []int{0, 1, 2, 8, 64}[r.IntN(5)], Active: []int{0, 1, 2, 8, 64}[r.IntN(5)],
		Seconds: []float64{1e-6, 0.3, 1e6}[r.IntN(3)], Frames: number(), Bytes: number(), Drops: number(), Retransmits: number(),
		CPUSeconds: []float64{0, 1e-9, 0.3, 1e9}[r.IntN(4)], Voluntary: number() >> 1, Involuntary: number() >> 1, MemoryKiB: number(),
		P50: int64(number() >> 1), P99: int64(number() >> 1), P999: int64(number() >> 1),
	}
}

// TestOddRounds: whatever a file that is read says, there is a report, and nothing in it that is no figure.
func TestOddRounds(t *testing.T) {
	all := []string{
		"pair", "sizes", "scale-idle", "scale-active", "latency", "memory", "start", "idle", "vmnet", "datagrams", "deaf", "tcp",
		"gateway", "tcp-latency", "machines", "old-new", "unknown",
	}
	notANumber := regexp.MustCompile(`\bNaN\b|\bInf\b|%!`)
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := sampleFile("a | `command`", nil)
		for range 100 {
			f.Rounds = append(f.Rounds, oddRound(r, all[r.IntN(len(all))]))
		}
		for name, b := range makeSample(t, []*figures.Run{{Name: "odd", File: f}}) {
			require.Empty(t, notANumber.FindString(string(b)), "%s with seed %d", name, seed)
			if strings.HasSuffix(name, ".md") {
				assert.NotContains(t, string(b), "n<e>w|", "%s with seed %d", name, seed)
			}
		}
	}
}

// TestNothingMeasured: without a single known series every section says so, and there is no plot.
func TestNothingMeasured(t *testing.T) {
	f := sampleFile("a", []rounds.Round{{Series: "other", Relay: rounds.Daemon, Seconds: 1}})
	files := makeSample(t, []*figures.Run{{Name: "other", File: f}})
	for name, b := range files {
		assert.NotContains(t, name, ".svg")
		assert.Contains(t, strings.ToLower(string(b)), "not measured", name)
	}
	assert.Contains(t, string(files["README.md"]), "0 of 18 targets are met, 0 missed, 18 not measured.")
}
