// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestActivity: what polls is seen.
func TestActivity(t *testing.T) {
	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	r := &Relay{cmd: &exec.Cmd{Process: self}}
	before, err := r.Activity()
	require.NoError(t, err)
	for range 20 {
		time.Sleep(time.Millisecond)
	}
	after, err := r.Activity()
	require.NoError(t, err)
	w := after.Since(before)
	assert.Positive(t, w.CPU)
	assert.GreaterOrEqual(t, w.Voluntary, uint64(10))
	assert.GreaterOrEqual(t, w.Length, 20*time.Millisecond)
}

func TestTailCountsCollections(t *testing.T) {
	var s tail
	log := "INFO | gc 1 is not one\ngc 1 @0.1s 2%: 0.1+0.2 ms clock\nINFO | x\ngc 2 @0.2s 2%: 0.1+0.2 ms clock\n"
	for _, c := range log { // a pipe cuts anywhere
		fmt.Fprint(&s, string(c))
	}
	assert.Equal(t, 2, s.collections())
	assert.Equal(t, log, s.String())

	fmt.Fprint(&s, strings.Repeat("x", 2*tailSize))
	assert.Equal(t, strings.Repeat("x", tailSize), s.String())
}
