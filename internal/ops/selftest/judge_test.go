// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// quickly is how tests run: short where something is expected to fail.
func quickly(open func(context.Context) (network.Network, error)) Options {
	return Options{Open: open, Answer: time.Second, Burst: 50 * time.Millisecond, Interfaces: 12}
}

// patiences are how long an answer may take. A network is broken however long one waits, a machine that runs nothing for a
// moment is not: what does not look as it should with the first one is looked at again with the next.
var patiences = []time.Duration{300 * time.Millisecond, 3 * time.Second, 20 * time.Second}

// complaints are what a check says.
type complaints []string

func (c *complaints) Errorf(format string, args ...any) {
	*c = append(*c, fmt.Sprintf(format, args...))
}

// patiently runs what options makes until check does not complain. It returns the last report, and the complaints of it.
func patiently(ctx context.Context, options func() Options, check func(t assert.TestingT, rep *report)) (rep report, said complaints) {
	for _, p := range patiences {
		o := options()
		o.Answer, o.Burst, o.limit = p, p/20, 8*p
		rep, said = Run(ctx, o), nil
		if check(&said, &rep); len(said) == 0 {
			break
		}
	}
	return rep, said
}

// judge is patiently for one test.
func judge(t *testing.T, options func() Options, check func(t assert.TestingT, rep *report)) {
	t.Helper()
	rep, said := patiently(t.Context(), options, check)
	for _, s := range said {
		t.Error(s)
	}
	logText(t, &rep)
}

// of makes options for a network with faults.
func of(f faults) func() Options { return func() Options { return quickly(opener(f)) } }

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

func logText(t *testing.T, rep *report) {
	t.Helper()
	t.Log(text(t, rep))
}
