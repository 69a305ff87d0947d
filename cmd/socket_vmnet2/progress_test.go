// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

func TestProgress(t *testing.T) {
	var said vnettest.Log
	done := progressOn(&said, time.Millisecond, time.Millisecond, "looking")
	require.Eventually(t, func() bool { return strings.Count(said.String(), "\n") >= 2 }, patience, time.Millisecond)
	done()
	assert.Regexp(t, `^\.\.\. looking, \d+ s so far\n\.\.\. looking, `, said.String())

	f, err := os.Create(t.TempDir() + "/stderr")
	require.NoError(t, err)
	defer f.Close()
	progress(compat.IO{Stderr: f}, "looking")() // no terminal
	assert.Empty(t, readFile(t, f.Name()))
}
