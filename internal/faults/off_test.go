// SPDX-License-Identifier: Apache-2.0

//go:build !faults

package faults

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNothingIsBuiltIn: without the tag a point costs no allocation and no program has anything of this package; with it the
// package works.
func TestNothingIsBuiltIn(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(100, func() { Point("anything"); In("anything", nil) }))
	out, err := exec.CommandContext(t.Context(), "go", "test", "-tags", "faults", "-count=1", ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
}
