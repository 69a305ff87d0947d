// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBadArguments(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"an argument", []string{"tcp"}, `unexpected argument "tcp"`},
		{"an unknown flag", []string{"--fast"}, "not defined: -fast"},
		{"rounds", []string{"--rounds", "x"}, "rounds"},
		{"too many rounds", []string{"--rounds", "100000"}, "want 1 to 1000"},
		{"series", []string{"--series", "tcp,udp"}, `unknown series "udp"`},
		{"set-up", []string{"--only", "nothing like it"}, "no set-up"},
	} {
		t.Run(c.name, func(t *testing.T) { assert.ErrorContains(t, run(t.Context(), c.args), c.want) })
	}
	require.ErrorIs(t, run(t.Context(), []string{"--help"}), flag.ErrHelp)
}
