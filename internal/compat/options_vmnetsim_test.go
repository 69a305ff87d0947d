// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package compat

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSimulator(t *testing.T) {
	for _, c := range []struct {
		name, argv string
		want       simulator
	}{
		{"none", "", simulator{}},
		{"library", "--vmnetsim-lib=/x/lib.so", simulator{Lib: "/x/lib.so"}},
		{"both", "--vmnetsim-dir=/d --vmnetsim-lib=/x/lib.so", simulator{Lib: "/x/lib.so", Dir: "/d"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parse(t, New, newWords(c.argv))
			require.NotNil(t, r.cfg, r.stderr)
			assert.Equal(t, c.want, r.cfg.Simulator)
		})
	}
	for _, c := range []struct{ argv, stderr string }{
		{"--vmnetsim-lib=", "--vmnetsim-lib is empty: give the path of the simulator"},
		{"--vmnetsim-dir=", "--vmnetsim-dir is empty: give a directory"},
	} {
		t.Run(c.argv, func(t *testing.T) {
			r := parse(t, New, newWords(c.argv))
			assert.Nil(t, r.cfg)
			assert.Equal(t, "ERROR| "+c.stderr+"\n", r.stderr)
		})
	}
}
