// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLima does what Lima's VZ driver would do, from the start of its machine to the end.
func TestLima(t *testing.T) {
	d := start(t, "")
	cmd := exec.Command(filepath.Join(prefix, "libexec/lima"), d.socket)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	errors := &output{}
	cmd.Stderr = errors
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	timer := time.AfterFunc(2*patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()

	lines := bufio.NewScanner(stdout)
	next := func() string {
		t.Helper()
		require.True(t, lines.Scan(), "%s", errors)
		return lines.Text()
	}
	assert.Equal(t, "handed over", next())
	assert.Regexp(t, `^address 192\.168\.105\.\d+/24, gateway 192\.168\.105\.1 answers$`, next())
	require.Eventually(t, func() bool { return strings.Contains(d.log.String(), "via=adopt transport=dgram") }, patience, 10*time.Millisecond)

	require.NoError(t, stdin.Close())
	require.NoError(t, cmd.Wait(), "%s", errors)
	require.Eventually(t, func() bool { return strings.Contains(d.log.String(), "client gone") }, patience, 10*time.Millisecond,
		"the machine has gone, and nothing but its socket tells that")
}
