// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/usernet"
)

func TestMain(m *testing.M) {
	if code, ran := gateway.Main("test"); ran { // of a network in this process
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// quickly is how tests run: short where something is expected to fail.
func quickly(open func(context.Context) (network.Network, error)) Options {
	return Options{Open: open, Answer: time.Second, Interfaces: 12}
}

// patiences are how long an answer may take. A network is broken however long one waits, a machine that runs nothing for a
// moment is not: what does not look as it should with the first one is looked at again with the next.
// A second look costs three times the first one: on a busy machine there are always some.
var patiences = []time.Duration{300 * time.Millisecond, 900 * time.Millisecond, 3 * time.Second, 20 * time.Second}

// complaints are what a check says.
type complaints []string

func (c *complaints) Errorf(format string, args ...any) {
	*c = append(*c, fmt.Sprintf(format, args...))
}

// patiently runs what options makes until check does not complain. It returns the last report, and the complaints of it.
func patiently(ctx context.Context, options func() Options, check func(t assert.TestingT, rep *report)) (rep report, said complaints) {
	for _, p := range patiences {
		o := options()
		o.Answer, o.limit = p, 8*p
		rep, said = Run(ctx, o), nil
		if check(&said, &rep); len(said) == 0 {
			break
		}
	}
	return rep, said
}

// outcomes are a report's, by step.
func outcomes(rep *report) map[string]outcome {
	m := map[string]outcome{}
	for _, s := range rep.Steps {
		m[s.Name] = s.Outcome
	}
	return m
}

func stepOf(t assert.TestingT, rep *report, name string) Step {
	for _, s := range rep.Steps {
		if s.Name == name {
			return s
		}
	}
	assert.Fail(t, "no such step", name)
	return Step{}
}

// text is a whole report for people.
func text(t *testing.T, rep *report) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, WriteHead(&b, rep.Environment))
	for _, s := range rep.Steps {
		require.NoError(t, WriteStep(&b, s))
	}
	require.NoError(t, rep.WriteTail(&b))
	return b.String()
}

func TestGoodNetwork(t *testing.T) {
	for _, mode := range []network.Mode{network.ModeShared, network.ModeHost} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			var told []string
			rep, said := patiently(t.Context(), func() Options {
				o := quickly(opener(faults{usernet: func(o *usernet.Options, _ int) { o.Mode = mode }}))
				o.Describe = func(network.Network) Facts { return Facts{{"api", "network"}} }
				told = nil
				o.OnStep = func(s Step) { told = append(told, s.Name) }
				return o
			}, func(t assert.TestingT, rep *report) {
				assert.Equal(t, passed, rep.Verdict)
				assert.Zero(t, rep.ExitCode())
				assert.Equal(t, stepNames(), told)
				assert.Equal(t, len(steps)-1, rep.Passed)
				assert.Equal(t, stepSkipped, outcomes(rep)["recorded"], "only macOS records leases")
				assert.Equal(t, "network", rep.Network.all()["api"])
				assert.Equal(t, "192.168.105.0/24", rep.Network.all()["subnet"])
				assert.Equal(t, 12, stepOf(t, rep, "interfaces").Values.all()["own"])
				assert.Equal(t, "reboot", stepOf(t, rep, "same-lease").Values.all()["how"])
				assert.Equal(t, 1514, stepOf(t, rep, "full-frame").Values.all()["frame_bytes"])
			})
			assert.Empty(t, said, text(t, &rep))
		})
	}
}

// TestInterrupted ends the run in the middle of each of several steps: it comes back soon and leaves nothing behind.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"open", "lease", "unicast", "interfaces", "reopen"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			// What the step waits for takes a minute.
			f := lose(func(s sent) bool { return name == "lease" && s.dhcp() || name == "unicast" && s.toGuest() })
			f.slow = 100 * time.Millisecond
			o := quickly(opener(f))
			o.Answer, o.limit = time.Minute, time.Minute
			before := "" // the step in front of it
			if i := slices.Index(stepNames(), name); i > 0 {
				before = steps[i-1].name
			}
			var at time.Time
			stop := func() {
				time.Sleep(50 * time.Millisecond)
				at = time.Now()
				cancel(errors.New("received signal interrupt"))
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			if before == "" {
				wg.Go(stop)
			}
			o.OnStep = func(s Step) {
				if s.Name == before {
					wg.Go(stop)
				}
			}
			rep := Run(ctx, o)
			wg.Wait()
			assert.Less(t, time.Since(at), 20*time.Second)
			assert.Equal(t, incomplete, rep.Verdict)
			assert.Equal(t, 1, rep.ExitCode())
			assert.Equal(t, "interrupted: received signal interrupt", rep.Reason)
			assert.Equal(t, stepSkipped, outcomes(&rep)["stop"])
			assert.Zero(t, rep.Failed, text(t, &rep))
		})
	}
}

func TestOutOfTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	o := quickly(opener(lose(sent.dhcp)))
	o.Answer, o.limit = time.Minute, time.Minute
	start := time.Now()
	rep := Run(ctx, o)
	assert.Less(t, time.Since(start), 20*time.Second)
	assert.Equal(t, incomplete, rep.Verdict)
	assert.Equal(t, "out of time", rep.Reason)
	assert.Equal(t, "out of time", stepOf(t, &rep, "lease").Text)
}

// stuck is a network whose calls do not return before release.
type stuck struct {
	network.Network
	release chan struct{}
}

func (s stuck) Close() error {
	<-s.release
	return s.Network.Close()
}

// TestHang: a call that does not return ends the run within its step's limit, and nothing is touched any more.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		for _, tt := range []struct {
			step string
			open func(context.Context) (network.Network, error)
		}{
			{"open", func(context.Context) (network.Network, error) {
				<-release
				return nil, errors.New("too late")
			}},
			{"close", func(context.Context) (network.Network, error) { return stuck{nothing{}, release}, nil }},
		} {
			start := time.Now()
			rep := Run(t.Context(), quickly(tt.open))
			assert.Less(t, time.Since(start), 40*time.Second)
			s := stepOf(t, &rep, tt.step)
			assert.Equal(t, stepFailed, s.Outcome)
			assert.Contains(t, s.Text, "did not come back within")
			assert.Equal(t, tt.step+" did not come back", stepOf(t, &rep, "stop").Text)
			assert.NotZero(t, rep.ExitCode())
		}
		close(release)
		synctest.Wait()
	})
}

func TestInLeases(t *testing.T) {
	mac := []byte{0x5a, 0x32, 0, 1, 0x0a, 0xff}
	assert.True(t, inLeases("{\n\thw_address=1,5a:32:0:1:a:ff\n}", mac))
	assert.True(t, inLeases("hw_address=1,5A:32:00:01:0A:FF", mac))
	assert.False(t, inLeases("\thw_address=1,5a:32:0:1:a:fe\n", mac))
	assert.False(t, inLeases("\thw_address=1,5a:32:0:1:a\n\thw_address=1,x:y\n\thw_address=ff,5a:32:0:1:a:ff", mac))
}

func TestJSON(t *testing.T) {
	rep := report{
		Schema: Schema, Environment: Facts{{"b", 1}, {"a", "x\"y"}},
		Steps: []Step{{Name: "open", Outcome: stepPassed}, {Name: "info", Outcome: stepFailed, Values: Facts{{"mtu_bytes", 1500}}}},
	}
	rep.finish("")
	b, err := json.Marshal(rep)
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(b, &m))
	assert.Equal(t, "fail", m["verdict"])
	assert.Equal(t, map[string]any{"mtu_bytes": 1500.0}, m["network"])
	assert.Equal(t, map[string]any{}, m["steps"].([]any)[0].(map[string]any)["values"])
	assert.Equal(t, []any{}, m["log"])
	assert.Equal(t, map[string]any{"b": 1.0, "a": "x\"y"}, m["environment"])
}

// TestText: a report is one line per step whatever errors hold, so that it survives being pasted.
func TestText(t *testing.T) {
	rep := report{Environment: Facts{{"uid", 501}}, Steps: []Step{
		{Name: "open", Outcome: stepPassed, Text: "started"},
		{Name: "full-frame", Outcome: stepFailed, Text: "one\ntwo\x1b[31m"},
	}}
	rep.finish("")
	rep.Log, rep.Reason = []string{"WARN a\nb"}, "x\ny"
	assert.Equal(t, `socket_vmnet2 selftest

uid         501

pass  open        started
fail  full-frame  one; two; [31m

log: WARN a; b

verdict: fail: 1 passed, 1 failed, 0 skipped in 0.0 s: x; y
`, text(t, &rep))
}

func TestEntitlement(t *testing.T) {
	const key = "<key>com.apple.security.virtualization</key>"
	assert.Equal(t, "yes: com.apple.security.virtualization", entitlement([]byte("<dict>"+key+"\n<true/></dict>"), nil))
	assert.Equal(t, "no: signed without com.apple.security.virtualization", entitlement([]byte("<dict>"+key+"<false/></dict>"), nil))
	assert.Equal(t, "not known: exit status 1: not signed", entitlement([]byte("not signed\n"), errors.New("exit status 1")))
	assert.Equal(t, "not known: none", entitlement(nil, errors.New("none")))
}

// stepNames are the names of all steps in the order of a report.
func stepNames() (names []string) {
	for _, s := range steps {
		names = append(names, s.name)
	}
	return names
}
