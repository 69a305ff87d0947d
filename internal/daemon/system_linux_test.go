// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOddProcessName: a process may call itself anything, parentheses and control characters among it.
func TestOddProcessName(t *testing.T) {
	dir := t.TempDir()
	name := "a) R 1 (\x1b["
	b, err := os.ReadFile("/bin/sleep")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/"+name, b, 0o755))
	c := exec.CommandContext(t.Context(), dir+"/"+name, "1000")
	c.Args[0] = "sleep" // where it is one program with many names
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	require.Eventually(t, func() bool {
		return processName(c.Process.Pid, time.Now()) == "a) R 1 (?["
	}, patience, time.Millisecond)
}
