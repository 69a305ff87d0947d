// SPDX-License-Identifier: Apache-2.0

//go:build !faults

package faults

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNothingIsBuiltIn: without the tag a point costs no allocation and no program has anything of this package; with it the
// package works.
func TestNothingIsBuiltIn(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(100, func() { Point("anything"); In("anything", nil) }))
	c := exec.CommandContext(t.Context(), "go", "test", "-tags", "faults", "-count=1", ".")
	c.Env = append(os.Environ(), "GOOS=", "GOARCH=") // for the machine that the test runs on, whatever it was built for
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
