// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNotice: what is linked, tests included, is in NOTICE with its licence.
func TestNotice(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-test", "-f", "{{with .Module}}{{.Path}}{{end}}", "./...").Output()
	require.NoError(t, err)
	notice, err := os.ReadFile("NOTICE")
	require.NoError(t, err)
	modules := strings.Fields(string(out))
	require.NotEmpty(t, modules)
	for _, m := range modules {
		if !strings.HasPrefix(m, "github.com/socket-vmnet2/") {
			assert.Contains(t, string(notice), m+" ")
		}
	}
}
