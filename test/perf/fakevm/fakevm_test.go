// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBadOptions(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"too many rounds", Options{Rounds: 1001}, "1001 rounds: want 1 to 1000"},
		{"negative rounds", Options{Rounds: -1}, "-1 rounds"},
		{"too long", Options{Seconds: 3601}, "3601 seconds for each measurement: want 1 to 3600"},
		{"negative length", Options{Seconds: -1}, "-1 seconds"},
		{"unknown series", Options{Series: []string{SeriesTCP, "speed"}}, `unknown series "speed": want some of tcp, tcp-latency, gateway`},
		{"no such set-up", Options{Only: []string{"tcp openvpn"}}, "no set-up of these series has such a name: tcp openvpn"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Run(t.Context(), c.o)
			require.ErrorContains(t, err, c.want)
			assert.Empty(t, f.Rounds)
		})
	}
}

func TestDefaults(t *testing.T) {
	var o Options
	require.NoError(t, o.check())
	assert.Equal(t, 9, o.Rounds)
	assert.Equal(t, 1, o.Seconds)
	assert.Equal(t, AllSeries(), o.Series)
	o.progress("is heard by nobody")
}

func TestSetups(t *testing.T) {
	names := map[string]bool{}
	for _, s := range setups() {
		assert.False(t, names[s.name()], "%q is there twice", s.name())
		names[s.name()] = true
		assert.LessOrEqual(t, s.active, s.clients, s.name())
		assert.True(t, strings.HasPrefix(s.name(), s.series+" "+s.relay+" "), s.name())
	}
	for _, name := range []string{
		"tcp daemon stream single 1500", "tcp old stream single 1500 6 idle", "tcp veth 65000",
		"tcp-latency floor stream single 1500 loaded", "gateway gvproxy stream single 1500 host-to-client",
	} {
		assert.True(t, names[name], name)
	}
}

func TestParseIperf(t *testing.T) {
	good := `{"start":{},"end":{"sum_sent":{"retransmits":3,"bytes":9},"sum_received":{"seconds":0.5,"bytes":8}}}`
	got, err := parseIperf([]byte(good))
	require.NoError(t, err)
	assert.Equal(t, transfer{seconds: 0.5, bytes: 8, retransmits: 3}, got)
	for _, c := range []struct{ name, out, want string }{
		{"nothing", "", "read what iperf3 printed"},
		{"no JSON", "iperf3: error", `"iperf3: error"`},
		{"cut short", good[:40], "read what iperf3 printed"},
		{"an error", `{"end":{},"error":"unable to connect to server: No route to host"}`, "iperf3: unable to connect to server: No route to host"},
		{"no bytes", `{"end":{"sum_received":{"seconds":1}}}`, "transferred nothing"},
		{"no time", `{"end":{"sum_received":{"bytes":1}}}`, "transferred nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseIperf([]byte(c.out))
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestParseEcho(t *testing.T) {
	var r rounds.Round
	require.NoError(t, parseEcho([]byte(`{"trips":7,"ns":500000000,"p50":1,"p99":2,"p999":3}`), &r))
	assert.Equal(t, rounds.Round{Seconds: 0.5, Trips: 7, P50: 1, P99: 2, P999: 3}, r)
	require.ErrorContains(t, parseEcho(nil, &r), "read the round trips")
	require.ErrorContains(t, parseEcho([]byte(`{"trips":0,"ns":1}`), &r), "no round trip")
}

// transfers are rounds of one set-up, each of a second and so many megabytes, with CPU time in seconds.
func transfers(series, relay, rest string, cpu float64, megabytes ...uint64) (all []rounds.Round) {
	for i, m := range megabytes {
		all = append(all, rounds.Round{
			Series: series, Setup: series + " " + relay + " " + rest, Relay: relay, Round: i, Seconds: 1, Bytes: m * 1e6, CPUSeconds: cpu,
		})
	}
	return all
}

func TestJudge(t *testing.T) {
	var f rounds.File
	add := func(r []rounds.Round) { f.Rounds = append(f.Rounds, r...) }
	add(transfers("tcp", rounds.Daemon, "stream 1500", 0.1, 75, 60, 70))
	add(transfers("tcp", rounds.Floor, "stream 1500", 0.1, 100, 90, 80))
	add(transfers("tcp", rounds.Old, "stream 1500", 0.1, 25))
	add(transfers("tcp", rounds.Daemon, "stream 1500 6 idle", 0.1, 100)) // nothing to compare with
	add(transfers("gateway", rounds.Daemon, "stream 1500", 0.1, 100, 10, 10))
	add(transfers("gateway", rounds.Gvproxy, "stream 1500", 0.2, 100, 100, 100))
	for i, relay := range []string{rounds.Daemon, rounds.Floor} {
		f.Rounds = append(f.Rounds, rounds.Round{Setup: "tcp-latency " + relay + " 1500", Relay: relay, Trips: 9, P50: int64(3000 - 1000*i), P99: 9000})
	}
	got := judge(f)
	require.Len(t, got, 4)

	assert.Equal(t, "tcp daemon stream 1500 / floor", got[0].text)
	assert.InDelta(t, 0.75, got[0].ratio, 1e-9)
	assert.Equal(t, "MISSED", got[0].outcome())
	assert.Equal(t, "tcp daemon stream 1500 / old", got[1].text)
	assert.InDelta(t, 3, got[1].ratio, 1e-9)
	assert.Empty(t, got[1].outcome(), "no target")

	// The daemon's best is far above its median: CPU time decides, 0.01 s/MB against 0.002.
	assert.True(t, got[2].byCPU)
	assert.InDelta(t, 0.2, got[2].cpuRatio, 1e-9)
	assert.Equal(t, "MISSED, by CPU time: the machine was busy", got[2].outcome())

	assert.InDelta(t, 1.5, got[3].ratio, 1e-9)
	assert.Empty(t, got[3].outcome())

	text := Table(f)
	for _, want := range []string{
		"transfers ", "tcp daemon stream 1500  ", "       560       600 ", "round trips ", "tcp-latency daemon 1500 ", "3.00",
		"ratios ", "0.75", ">= 0.80 MISSED",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "NaN")
	assert.NotContains(t, text, "Inf")
	assert.Empty(t, verdictTable(nil))
}
