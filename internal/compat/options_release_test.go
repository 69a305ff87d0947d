// SPDX-License-Identifier: Apache-2.0

//go:build !vmnetsim

package compat

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestReleaseKnowsNoSimulator: no option has the daemon load a library, not even by an abbreviation.
func TestReleaseKnowsNoSimulator(t *testing.T) {
	assert.Empty(t, buildFlags(newSettings(New)))
	for _, name := range []string{"vmnetsim-lib", "vmnetsim-dir", "vmnetsim", "vmnets"} {
		r := parse(t, New, words("--"+name+"=/x /s"))
		assert.Nil(t, r.cfg)
		assert.Equal(t, 1, r.code)
		assert.Equal(t, "ERROR| unknown option --"+name+seeHelp+"\n", r.stderr)
		assert.NotContains(t, r.stdout, "vmnetsim")
	}
}
