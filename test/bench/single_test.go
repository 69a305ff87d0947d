// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// testDaemonRows has a daemon measured on the embedded network: what only it has, and the loads that ask most of it.
func testDaemonRows(t *testing.T, daemon string) {
	b := &bench{
		Rig: rig.ForTest(t, rig.Options{Daemon: daemon, Warm: 20 * time.Millisecond, Time: 200 * time.Millisecond}),
		p:   params{Rounds: 1, MemRuns: 1, Quick: true, Settle: 10 * time.Millisecond, Time: 200 * time.Millisecond},
	}
	t.Run("start", func(t *testing.T) {
		verdicts, err := b.start(t.Context())
		require.NoError(t, err)
		require.Len(t, verdicts, 1)
		assert.Positive(t, verdicts[0].Subject)
		assert.Less(t, verdicts[0].Subject, 60e3, "ms: as long as it is waited for")
	})
	t.Run("idle", func(t *testing.T) {
		verdicts, err := b.idle(t.Context())
		require.NoError(t, err)
		require.Len(t, verdicts, 4)
		assert.LessOrEqual(t, verdicts[1].Subject, 16*5.0, "context switches per second; polling 5 times a second makes more")
	})
	t.Run("memory", func(t *testing.T) {
		verdicts, err := b.busyMemory(t.Context())
		require.NoError(t, err)
		require.Len(t, verdicts, len(busy))
		for _, v := range verdicts {
			assert.Greater(t, v.Subject, 500.0, "KiB, %s", v.Text)
		}
		assert.InDelta(t, busyLimit, verdicts[0].Target, 1)
	})
	t.Run("loads", func(t *testing.T) {
		var done []measurement
		for _, name := range []string{
			"daemon ss 64", "daemon ss 32768", "daemon dd 65550", "daemon uu 65550", "daemon cc 65550", "daemon sd 65550", "daemon ds 9000",
			"daemon echo beside a flow",
		} {
			i := slices.IndexFunc(setups(), func(s setup) bool { return s.name == name })
			require.GreaterOrEqual(t, i, 0, name)
			s := setups()[i]
			s.load.Frames = 20 // however busy the machine is
			res, err := b.Measure(t.Context(), s.relay, s.load)
			require.NoError(t, err, name)
			assert.Positive(t, res.Received, name)
			done = append(done, measurement{Setup: name, Result: res})
		}
		testFile(t, report{Rounds: done, more: b.more, Command: "make bench"})
	})
}

// testFile writes a report and reads it as the page's program does.
func testFile(t *testing.T, r report) {
	t.Helper()
	r.Params.JSON = filepath.Join(t.TempDir(), "a", "b.json")
	r.Params.Verdicts = filepath.Join(t.TempDir(), "v.json")
	require.NoError(t, r.write())
	assert.FileExists(t, r.Params.Verdicts)
	f, err := rounds.Read(r.Params.JSON)
	require.NoError(t, err)
	assert.Equal(t, "make bench", f.Command)
	for _, s := range []string{seriesSizes, seriesLatency, seriesStart, seriesIdle, seriesMemory} {
		assert.True(t, slices.ContainsFunc(f.Rounds, func(r rounds.Round) bool { return r.Series == s }), s)
	}
	for _, r := range f.Rounds {
		assert.Positive(t, r.Seconds, r.Setup)
		assert.NotEmpty(t, r.Relay, r.Setup)
	}
}

func TestRawRounds(t *testing.T) {
	done := []measurement{
		{Round: 1, Setup: "floor 2 batch", Result: rig.Result{
			WallNS: 5e8, RelayCPUNS: 1e8, Received: 1000, Lost: 3, Voluntary: 7, Involuntary: 2, MemoryKiB: 300,
		}},
		{Setup: "daemon sd 9000", Result: rig.Result{WallNS: 1e9, Received: 10}},
		{Setup: "daemon echo beside a flow", Result: rig.Result{
			WallNS: 1e9, Received: 10, RoundTrips: 50, RTTP50NS: 1, RTTP99NS: 2, RTTP999NS: 3,
		}},
		{Setup: "daemon mixed deaf", Result: rig.Result{WallNS: 1e9}},
	}
	got := rawRounds(done)
	of := func(series, setup string) rounds.Round {
		i := slices.IndexFunc(got, func(r rounds.Round) bool { return r.Series == series && r.Setup == setup })
		require.GreaterOrEqual(t, i, 0, "%s %s", series, setup)
		return got[i]
	}
	want := rounds.Round{
		Series: seriesPair, Setup: "floor 2 batch", Round: 1, Relay: rounds.Floor, Transport: "stream", Sender: "batch",
		Direction: rounds.ClientToClient, Frame: 1514, Clients: 2, Active: 2, Seconds: 0.5, Frames: 1000, Bytes: 1_514_000, Drops: 3,
		CPUSeconds: 0.1, Voluntary: 7, Involuntary: 2, MemoryKiB: 300,
	}
	assert.Equal(t, want, of(seriesPair, "floor 2 batch"))
	want.Series = seriesSizes
	assert.Equal(t, want, of(seriesSizes, "floor 2 batch"), "the same in each series that it belongs to")
	want.Series = seriesActive
	assert.Equal(t, want, of(seriesActive, "floor 2 batch"))

	mixed := of(seriesSizes, "daemon sd 9000")
	assert.Equal(t, "stream/passed", mixed.Transport)
	assert.Equal(t, 9000, mixed.Frame)
	assert.Equal(t, uint64(90_000), mixed.Bytes)
	echo := of(seriesLatency, "daemon echo beside a flow")
	assert.Equal(t, 64, echo.Frame)
	assert.Equal(t, []int{4, 4}, []int{echo.Clients, echo.Active})
	assert.Equal(t, []int64{50, 1, 2, 3}, []int64{int64(echo.Trips), echo.P50, echo.P99, echo.P999})
	assert.Equal(t, uint64(15_140), echo.Bytes, "of the flow")
	deaf := of(seriesDeaf, "daemon mixed deaf")
	assert.Equal(t, "mixed", deaf.Transport)
	assert.Equal(t, 10, deaf.Active)
	assert.Len(t, got, 6)
}

func TestTransport(t *testing.T) {
	for kinds, want := range map[string]string{
		"": "stream", "s": "stream", "dd": "passed", "uc": "path/connected", "ds": "passed/stream", "sd": "stream/passed",
	} {
		assert.Equal(t, want, transport(rig.Load{Kinds: kinds, Pairs: 1, Clients: 2}), kinds)
	}
	assert.Equal(t, "stream", transport(rig.Load{Kinds: "s", Pairs: 4, Clients: 8}))
	assert.Equal(t, "mixed", transport(rig.Load{Kinds: "ssdd", Pairs: 2, Clients: 4}))
}

func TestStartVerdict(t *testing.T) {
	v := startVerdict([]float64{80, 49, 60})
	assert.True(t, v.Met)
	assert.InDelta(t, 49, v.Subject, 1e-9)
	assert.Equal(t, "<= 50.0 ms", v.wanted())
	assert.False(t, startVerdict([]float64{80, 51, 60}).Met)
}

func TestIdleVerdicts(t *testing.T) {
	rest := idleVerdicts(keyIdle, "x", rig.Work{Length: 10 * time.Second}, 0, 0)
	assert.True(t, rest[0].Met && rest[1].Met)
	one := idleVerdicts(keyIdle, "x", rig.Work{Length: 10 * time.Second, CPU: time.Microsecond, Voluntary: 1}, 0, 0)
	assert.False(t, one[0].Met || one[1].Met, "nothing means nothing")
}
