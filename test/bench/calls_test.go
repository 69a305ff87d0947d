// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// testBench compiles the C programs and has everything measured once; the daemon under test is never started.
func testBench(t *testing.T) *bench {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := params{Daemon: self, Rounds: 1, Quick: true}
	return &bench{
		Rig: rig.ForTest(t, rig.Options{Daemon: self, Warm: 20 * time.Millisecond, Time: 200 * time.Millisecond, Kinds: kinds()}),
		p:   p,
	}
}

// TestVmnetRows runs everything that is measured on the simulator once.
func TestVmnetRows(t *testing.T) {
	b := testBench(t)
	require.NoError(t, b.build(t.Context()))

	t.Run("clients", func(t *testing.T) {
		for _, s := range setups() {
			if s.relay != rounds.DaemonVmnet && s.relay != rounds.VmnetC {
				continue
			}
			s.load.Frames = 20 // however busy the machine is
			res, err := b.Measure(t.Context(), s.relay, s.load)
			require.NoError(t, err, s.name)
			assert.Positive(t, res.Received+res.RoundTrips, s.name)
		}
	})
	t.Run("calls", func(t *testing.T) {
		cases, err := b.calls(t.Context())
		require.NoError(t, err)
		verdicts := judgeCalls(cases, choice{})
		for _, key := range callKeys() {
			assert.True(t, slices.ContainsFunc(verdicts, func(v verdict) bool { return v.Key == key }), "row %q", key)
		}
		for _, v := range verdicts {
			switch v.Key {
			case keyAllocs:
				// purego takes an argument block from a pool, which a collection or a change of processor may have emptied.
				// The benchmark takes the best of seven rounds; here is one. A call that allocates does so 100,000 times.
				assert.Less(t, v.Subject, 20.0, v.Text)
			case keyOwn: // a difference of two figures, which a busy machine may turn negative
				assert.Positive(t, v.Base, v.Text)
			case keyEvent:
				if v.Unit == "allocations" { // on a busy machine there are a few events only, see above
					events, mallocs := callSet(cases).events()
					assert.Less(t, float64(mallocs), 0.5*float64(events)+20, v.Remarks)
				} else {
					assert.Positive(t, v.Subject, v.Text)
				}
			default:
				assert.Positive(t, v.Subject, v.Text)
				assert.Positive(t, v.Base, v.Text)
			}
		}
	})
	t.Run("embedded network", func(t *testing.T) { testDaemonRows(t, b.DaemonSim()) })
	t.Run("idle", func(t *testing.T) {
		verdicts, err := b.idleVmnet(t.Context())
		require.NoError(t, err)
		require.Len(t, verdicts, 2)
		assert.LessOrEqual(t, verdicts[1].Subject, 16*5.0, "context switches per second; polling 5 times a second makes more")
	})
}

// ns are cases with the given CPU time per call.
func ns(program, library, op string, perCall, length int, costs ...int64) (cases callSet) {
	for i, cost := range costs {
		c := callCase{Round: i, Program: program, Library: library, Op: op, PerCall: perCall, Len: length, Calls: 10}
		if op != opEmpty {
			c.Packets = 10 * int64(perCall)
		}
		c.CPU = cost * max(c.Packets, c.Calls)
		cases = append(cases, c)
	}
	return cases
}

func TestJudgeCalls(t *testing.T) {
	full := func(goCost, cCost int64) callSet {
		return slices.Concat(
			ns(programGo, libraryAll, opRead, 32, fullLen, goCost, goCost+1), ns(programC, libraryAll, opRead, 32, fullLen, cCost, cCost+1))
	}
	nothing := func(goCost, cCost int64) callSet {
		return slices.Concat(
			ns(programGo, libraryAll, opEmpty, 173, 0, goCost, goCost+1), ns(programC, libraryAll, opEmpty, 173, 0, cCost, cCost+1))
	}
	for _, tt := range []struct {
		name    string
		cases   callSet
		op      string
		n, size int
		figure  float64
		met     bool
	}{
		{"batch", full(60, 40), opRead, 32, fullLen, 1.5, true},
		{"slow batch", full(61, 40), opRead, 32, fullLen, 1.525, false},
		{"nothing", nothing(380, 180), opEmpty, 173, 0, 200, true},
		{"slow nothing", nothing(381, 180), opEmpty, 173, 0, 201, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := tt.cases.against(keyCalls, tt.op, tt.op, tt.n, tt.size)
			assert.InDelta(t, tt.figure, v.figure(), 1e-9)
			assert.Equal(t, tt.met, v.Met)
		})
	}
}

func TestOwnCost(t *testing.T) {
	cases := slices.Concat(
		ns(programGo, libraryAll, opWrite, 1, fullLen, 190, 170), ns(programC, libraryAll, opWrite, 1, fullLen, 70, 80),
		ns(programGo, libraryNil, opWrite, 1, fullLen, 90), ns(programC, libraryNil, opWrite, 1, fullLen, 5, 6))
	v := cases.own(opWrite, 1, fullLen)
	assert.InDelta(t, 170-(70-5), v.Subject, 1e-9)
	assert.InDelta(t, 5, v.Base, 1e-9)
	assert.Contains(t, v.Remarks, "simulator's part is 65.0 ns")
}

func TestAllocationsOfTheBestRound(t *testing.T) {
	cases := callSet{
		{Op: opAllocRead, Calls: 1000, Mallocs: 3}, {Op: opAllocRead, Calls: 1000}, {Op: opAllocWrite, Calls: 1000, Mallocs: 1000},
	}
	assert.True(t, cases.allocations(opAllocRead).Met)
	assert.False(t, cases.allocations(opAllocWrite).Met)
	assert.False(t, callSet{}.allocations(opAllocRead).Met, "not measured")
}

func TestReadCases(t *testing.T) {
	cases, err := readCases([]byte(`{"op":"read","packets_per_call":32,"frame_bytes":1514,"calls":2,"packets":64,"cpu_ns":640}` + "\n"))
	require.NoError(t, err)
	require.Len(t, cases, 1)
	assert.InDelta(t, 10, cases[0].cost(), 1e-9)
	for _, bad := range []string{"", "x\n", `{"op":"read","calls":0}` + "\n"} {
		_, err := readCases([]byte(bad))
		assert.Error(t, err, "%q", bad)
	}
}
