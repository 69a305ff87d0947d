// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// runMake runs make in the tree, with the binaries built elsewhere.
func runMake(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("make", args...).CombinedOutput()
	require.NoError(t, err, "make %s\n%s", strings.Join(args, " "), out)
}

func TestInstallAndUninstall(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "a b") // a path with a space
	vars := []string{"BIN=" + filepath.Join(t.TempDir(), "b in"), "DESTDIR=" + dest, "PREFIX=/opt/socket_vmnet", "VERSION=v9.8.7-test"}
	runMake(t, append(vars, "install.bin", "install.doc")...)
	bin := filepath.Join(dest, "opt/socket_vmnet/bin")
	for _, name := range []string{"socket_vmnet", "socket_vmnet2", "socket_vmnet_client"} {
		fi, err := os.Lstat(filepath.Join(bin, name))
		require.NoError(t, err)
		assert.True(t, fi.Mode().IsRegular(), "%s is no link: Lima refuses those", name)
		assert.Equal(t, os.FileMode(0o755), fi.Mode().Perm())
	}
	for _, name := range []string{"socket_vmnet", "socket_vmnet2"} {
		out, err := exec.Command(filepath.Join(bin, name), "--version").Output()
		require.NoError(t, err)
		assert.Equal(t, "v9.8.7-test\n", string(out))
	}
	helper := filepath.Join(dest, "opt/socket_vmnet/libexec/vmnet-helper")
	out, err := exec.Command(helper, "--version").Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "commit: v9.8.7-test\n")
	assert.FileExists(t, filepath.Join(dest, "opt/socket_vmnet/share/doc/socket_vmnet/README.md"))
	assert.FileExists(t, filepath.Join(dest, "opt/socket_vmnet/share/doc/socket_vmnet/LICENSE"))

	own := filepath.Join(bin, "not_ours")
	require.NoError(t, os.WriteFile(own, nil, 0o600))
	runMake(t, append(vars, "uninstall.bin", "uninstall.doc")...)
	assert.NoFileExists(t, helper)
	left, err := os.ReadDir(bin)
	require.NoError(t, err)
	require.Len(t, left, 1, "what was there besides stays")
	assert.Equal(t, "not_ours", left[0].Name())
	assert.NoDirExists(t, filepath.Join(dest, "opt/socket_vmnet/share/doc/socket_vmnet"))
}
