// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestHelpScreen: the texts fit into a terminal as wide as it is, and have no colours.
func TestHelpScreen(t *testing.T) {
	for width, longest := range map[uint16]int{40: 40, 80: 80, 200: 120, 0: 80} {
		for _, args := range [][]string{{"--help"}, {"status", "--help"}, {"help", "status"}} {
			w := open(t, width, 50, []string{"TERM=xterm", "GORACE=atexit_sleep_ms=0"}, args...)
			if w == nil {
				return
			}
			most := 0
			for _, line := range w.lines(t) {
				if len(strings.Fields(line)) > 1 {
					most = max(most, len(line))
				}
			}
			assert.LessOrEqual(t, most, longest)
			assert.Greater(t, most, longest*3/4, "the width is used")
			assert.NotContains(t, w.stdout.String(), "\x1b")
		}
	}
	w := open(t, 80, 50, []string{"COLUMNS=40", "GORACE=atexit_sleep_ms=0"}, "--help")
	assert.Contains(t, w.lines(t), "Connects virtual machines (QEMU, Lima,", "COLUMNS goes before the terminal")
}
