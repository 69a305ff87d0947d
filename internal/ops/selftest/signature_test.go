// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEntitlement reads programs for Macs: as Go links them, and as the project signs them.
func TestEntitlement(t *testing.T) {
	dir := t.TempDir()
	run := func(in string, env []string, args ...string) {
		c := exec.CommandContext(t.Context(), "go", args...)
		c.Dir, c.Env = in, append(os.Environ(), env...)
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	main, program, list := filepath.Join(dir, "main.go"), filepath.Join(dir, "program"), filepath.Join(dir, "list")
	require.NoError(t, os.WriteFile(main, []byte("package main\n\nfunc main() {}\n"), 0o600))
	run(dir, []string{"GOOS=darwin", "GOARCH=amd64", "CGO_ENABLED=0"}, "build", "-o", program, main)
	assert.Equal(t, "no: not signed", Entitlement(program))
	for entitlements, want := range map[string]string{
		"<key>com.apple.security.virtualization</key><true/>":  "yes: com.apple.security.virtualization",
		"<key>com.apple.security.virtualization</key><false/>": "no: signed without com.apple.security.virtualization",
	} {
		require.NoError(t, os.WriteFile(list, []byte(`<plist version="1.0"><dict>`+entitlements+`</dict></plist>`), 0o600))
		run("../../../tools/release", []string{"GOOS=", "GOARCH="}, "run", ".", "sign", "-identifier=test", "-entitlements="+list, program)
		assert.Equal(t, want, Entitlement(program))
	}
	b, err := os.ReadFile(program)
	require.NoError(t, err)
	b[len(b)/2] ^= 1
	require.NoError(t, os.WriteFile(program, b, 0o600))
	assert.Contains(t, Entitlement(program), "no: the program was changed after it was signed: ")
	assert.Contains(t, Entitlement(filepath.Join(dir, "absent")), "not known: ")
}
