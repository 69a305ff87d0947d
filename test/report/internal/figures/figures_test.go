// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"testing"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFormat(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 1: "1.00", 9.994: "9.99", 9.996: "10.0", 12.34: "12.3", 99.94: "99.9", 99.96: "100", 999.6: "1000", 1234.5: "1234",
		0.5: "0.500", 0.0123: "0.0123", 0.00004567: "0.000046", -2.5: "-2.50",
	} {
		assert.Equal(t, want, Format(x), "%v", x)
	}
}

func TestMetrics(t *testing.T) {
	r := rounds.Round{
		Seconds: 0.5, Frames: 1_000_000, Bytes: 1_000_000_000, CPUSeconds: 0.25, Voluntary: 3000, Involuntary: 1000,
		P50: 12_345, P99: 20_000, P999: 1_000_000, MemoryKiB: 1000, Retransmits: 3, Drops: 4,
	}
	for name, want := range map[string]float64{
		"rate": 2000, "flow": 2000, "gbit": 16, "cpu": 250, "cpu-gb": 0.25, "mbit-percent": 320, "switches": 4, "wake-ups": 3, "retransmits": 3,
		"drops": 4, "p50": 12.345, "p99": 20, "p999": 1000, "memory": 1.024, "start": 500, "idle-cpu": 500, "idle-switches": 8000,
	} {
		v, ok := Metrics[name].Of(Group{r})
		assert.True(t, ok, name)
		assert.InDelta(t, want, v.Value, 1e-9, name)
	}
	assert.Len(t, Metrics, 17, "all of them are in the table above")
}

// TestNotMeasured: a figure that was not taken is never a 0.
func TestNotMeasured(t *testing.T) {
	nothing := Group{{Seconds: 1}}
	for name, m := range Metrics {
		_, ok := m.Of(nil)
		assert.False(t, ok, "%s of no rounds", name)
		if name != "start" && name != "flow" && name != "idle-cpu" && name != "idle-switches" { // which may be 0, or are of the time alone
			_, ok = m.Of(nothing)
			assert.False(t, ok, "%s of an empty round", name)
		}
	}
	_, ok := Compare(Rate, Group{{Seconds: 1, Frames: 1}}, nothing)
	assert.False(t, ok, "a ratio to nothing")
	_, ok = Compare(Rate, nothing, Group{{Seconds: 1, Frames: 1}})
	assert.False(t, ok, "a ratio of nothing")
}

// rates are rounds of a second with so many thousand frames, at a microsecond each.
func rates(kfs ...uint64) (g Group) {
	for i, k := range kfs {
		g = append(g, rounds.Round{Round: i, Seconds: 1, Frames: 1000 * k, CPUSeconds: float64(k) / 1000})
	}
	return g
}

func TestBestAndMedian(t *testing.T) {
	for _, c := range []struct {
		name string
		m    Metric
		g    Group
		want Value
	}{
		{"the highest rate", Rate, rates(3, 9, 5), Value{Value: 9, Median: 5, Min: 3, Max: 9, N: 3}},
		{"one round", Rate, rates(3), Value{Value: 3, Median: 3, Min: 3, Max: 3, N: 1}},
		{"an even number", Rate, rates(4, 1, 2, 8), Value{Value: 8, Median: 3, Min: 1, Max: 8, N: 4}},
		{"a round that stood still counts as 0", Rate, rates(4, 0, 2), Value{Value: 4, Median: 2, Min: 0, Max: 4, N: 3}},
		{
			"the lowest round trip", P50,
			Group{{Seconds: 1, P50: 3000}, {Seconds: 1, P50: 1000}, {Seconds: 1, P50: 2000}, {Seconds: 1}},
			Value{Value: 1, Median: 2, Min: 1, Max: 3, N: 3},
		},
		{
			"the median of CPU time", CPU,
			Group{{Seconds: 1, Frames: 1e9, CPUSeconds: 5}, {Seconds: 1, Frames: 1e9, CPUSeconds: 1}, {Seconds: 1, Frames: 1e9, CPUSeconds: 2}, {Seconds: 1}},
			Value{Value: 2, Median: 2, Min: 1, Max: 5, N: 3},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, ok := c.m.Of(c.g)
			require.True(t, ok)
			assert.Equal(t, c.want, v)
		})
	}
}

func TestSpread(t *testing.T) {
	v, _ := Rate.Of(rates(3, 9, 5))
	assert.Equal(t, "3.00–9.00", v.Spread())
	v, _ = Rate.Of(rates(3))
	assert.Empty(t, v.Spread(), "one round has none")
}

func TestDecide(t *testing.T) {
	calm, wild := rates(100, 99, 98), rates(400, 50, 50)
	slow := rates(50, 50, 50)
	for i := range slow {
		slow[i].CPUSeconds *= 4
	}
	r, ok := Decide(Rate, calm, slow)
	require.True(t, ok)
	assert.False(t, r.ByCPU)
	assert.InDelta(t, 2, r.Ratio, 1e-9, "the best by the best")

	for _, pair := range [][2]Group{{wild, slow}, {slow, wild}} {
		r, ok = Decide(Rate, pair[0], pair[1])
		require.True(t, ok)
		assert.True(t, r.ByCPU, "the neighbours were measured")
		v0, _ := CPU.Of(pair[0])
		v1, _ := CPU.Of(pair[1])
		assert.InDelta(t, v1.Value/v0.Value, r.Ratio, 1e-9, "more is better")
	}

	for i := range wild {
		wild[i].CPUSeconds = 0
	}
	r, ok = Decide(Rate, wild, slow)
	require.True(t, ok)
	assert.False(t, r.ByCPU, "there is no CPU time")
	assert.InDelta(t, 8, r.Ratio, 1e-9)
}

func TestParseQuery(t *testing.T) {
	q, err := ParseQuery("series=pair relay=daemon transport=stream sender=batch direction=client-to-client frame=64 clients=4 active=2 setup=a_b")
	require.NoError(t, err)
	assert.Equal(t, Key{
		Series: "pair", Relay: "daemon", Transport: "stream", Sender: "batch", Direction: "client-to-client", Frame: 64, Clients: 4, Active: 2, Setup: "a b",
	}, q)
	for _, bad := range []string{"", "relay=daemon", "series=", "series=a frame=x", "series=a size=3", "series"} {
		_, err := ParseQuery(bad)
		assert.Error(t, err, "%q", bad)
	}
}

func TestGroupsAreOfOneSetup(t *testing.T) {
	run := &Run{Name: "a", File: rounds.File{Rounds: []rounds.Round{
		{Series: "x", Relay: rounds.Daemon, Setup: "x daemon one", Frame: 64, Seconds: 1},
		{Series: "x", Relay: rounds.Daemon, Setup: "x daemon one", Frame: 64, Seconds: 2},
		{Series: "x", Relay: rounds.Daemon, Setup: "x daemon two", Frame: 64, Seconds: 3},
		{Series: "x", Relay: rounds.Floor, Setup: "x floor one", Frame: 64, Seconds: 4},
		{Series: "x", Relay: rounds.Floor, Setup: "x floor two", Frame: 64, Seconds: 5},
		{Series: "x", Relay: rounds.Old, Setup: "anything", Frame: 64, Seconds: 6},
		{Series: "x", Relay: rounds.Direct, Sender: TCP, Setup: "no relay", Frame: 64, Seconds: 7},
	}}}
	_, err := run.Group(Key{Series: "x", Relay: rounds.Daemon})
	require.ErrorContains(t, err, "several set-ups")
	g, err := run.Group(Key{Series: "x", Relay: rounds.Daemon, Setup: "x daemon one"})
	require.NoError(t, err)
	assert.Len(t, g, 2)
	g, err = run.Group(Key{Series: "y"})
	require.NoError(t, err)
	assert.Empty(t, g)

	k := Key{Series: "x", Relay: rounds.Daemon, Setup: "x daemon two", Frame: 64}
	assert.InDelta(t, 5, run.Beside(k, rounds.Floor)[0].Seconds, 0, "the set-up's name tells which")
	assert.InDelta(t, 6, run.Beside(k, rounds.Old)[0].Seconds, 0, "there is only one")
	k.Transport = "stream"
	assert.InDelta(t, 7, run.Beside(k, rounds.Direct)[0].Seconds, 0, "without a relay there is no transport")
	assert.Empty(t, run.Beside(k, rounds.Floor), "of another transport")
	k = Key{Series: "x", Relay: rounds.Daemon, Setup: "x daemon three", Frame: 64}
	assert.Empty(t, run.Beside(k, rounds.Floor), "neither is meant")
}

func TestTCPByVMM(t *testing.T) {
	assert.Equal(t, "tcp", KeyOf(rounds.Round{Sender: "tcp", Setup: "tcp daemon stream single 1500"}).Sender)
	assert.Equal(t, TCPBatch, KeyOf(rounds.Round{Sender: "tcp", Setup: "tcp daemon stream batch 1500"}).Sender)
	assert.Equal(t, TCPOffload, KeyOf(rounds.Round{Sender: "tcp", Setup: "tcp daemon stream offload 1500"}).Sender)
	assert.Equal(t, "batch", KeyOf(rounds.Round{Sender: "batch", Setup: "a batch of"}).Sender)
}
