// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const confineEnv = "TEST_CONFINE"

// TestConfine has another process try what a gateway does, and what it does not.
func TestConfine(t *testing.T) {
	at := os.Getenv(confineEnv)
	if at == "" {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		c := exec.Command(os.Args[0], "-test.run=^TestConfine$")
		c.Env = append(os.Environ(), confineEnv+"="+l.Addr().String())
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
		page, err := os.ReadFile("../../docs/security.md")
		require.NoError(t, err)
		for _, name := range systemCalls {
			assert.Contains(t, string(page), "`"+name+"`")
		}
		return
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, confine())
	_, err := os.ReadFile("/etc/passwd")
	require.NoError(t, err)
	c, err := net.Dial("tcp4", at)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	_, err = net.InterfaceAddrs()
	require.NoError(t, err)

	_, err = os.ReadFile(file)
	assert.ErrorIs(t, err, fs.ErrPermission)
	assert.ErrorIs(t, os.WriteFile("/etc/socket_vmnet2-test", nil, 0o600), fs.ErrPermission)
	assert.ErrorIs(t, exec.Command("/bin/true").Run(), fs.ErrPermission)
	for name, err := range map[string]error{
		"kill": syscall.Kill(os.Getppid(), 0), "chmod": os.Chmod(file, 0o777), "setuid": syscall.Setuid(0), "mount": syscall.Mount("", "/", "", 0, ""),
		"ptrace": syscall.PtraceAttach(os.Getppid()),
	} {
		assert.ErrorIs(t, err, syscall.EPERM, name)
	}
	os.Exit(map[bool]int{true: 1}[t.Failed()]) // its directory is not to be removed by this process
}
