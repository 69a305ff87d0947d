// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

func TestVZGuest(t *testing.T) {
	w := newWorld(t, "darwin")
	assert.Equal(t, 1, w.perf("create", "-v", "vzguest"))
	assert.Contains(t, w.stderr.String(), "Build and sign it as test/vzguest/README.md has it")
	t.Setenv("PERF_VZGUEST", w.path("bin/vzguest"))
	assert.Equal(t, 1, w.perf("create", "-v", "vzguest"))
	assert.Contains(t, w.stderr.String(), "PERF_KERNEL and PERF_INITRD are to name")
	for _, f := range []string{"KERNEL", "INITRD"} {
		require.NoError(t, os.WriteFile(w.path(f), nil, 0o600))
		t.Setenv("PERF_"+f, w.path(f))
	}
	w.ok("create", "-v", "vzguest")

	w.listen(filepath.Join(w.runDir, "socket_vmnet"))
	assert.Equal(t, 1, w.perf("run", "-v", "vzguest"))
	assert.Contains(t, w.stderr.String(), "-v vzguest needs a daemon that passes descriptors")

	require.NoError(t, os.Mkdir(filepath.Join(w.runDir, "socket_vmnet.d"), 0o700))
	w.calls()
	w.ok("run", "-v", "vzguest", "-t", "3")
	calls := quote(w.calls())
	assert.Contains(t, calls, "vzguest --socket DIR/run/socket_vmnet --name perf2 --mac 52:54:00:70:65:02 --kernel DIR/KERNEL --initrd DIR/INITRD")
	assert.Contains(t, calls, "iperf3-darwin --client 192.168.105.9 --time 3 --json --reverse")
	b, err := os.ReadFile(filepath.Join(w.out(), "shared-vzguest-2", "vm-to-vm.json"))
	require.NoError(t, err)
	assert.JSONEq(t, goodResult, string(b))
	f, err := rounds.Read(filepath.Join(w.out(), roundsFile))
	require.NoError(t, err)
	assert.Equal(t, "passed", f.Rounds[0].Transport)

	w.ok("delete", "-v", "vzguest")
	assert.NoDirExists(t, filepath.Join(w.cache, "perf1"))
}

func TestConsole(t *testing.T) {
	newWorld(t, "darwin")
	c, err := startConsole("a shell", "/bin/sh")
	require.NoError(t, err)
	defer c.stop()
	require.NoError(t, c.ready(t.Context()))
	out, err := c.run(t.Context(), "echo one; echo two")
	require.NoError(t, err)
	assert.Equal(t, "one\ntwo\n", out)
	_, err = c.run(t.Context(), "echo no; false")
	require.EqualError(t, err, "a shell: echo no; false: exit code 1\n  no")
	_, err = c.run(t.Context(), "echo last words; exit 3")
	require.ErrorContains(t, err, "a shell has ended\n  last words")
	require.ErrorContains(t, c.ready(t.Context()), "has ended")
}
