// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestHostileNames has names in files of users that a shell would run. Each command of the plan is run by a shell in which every
// program only notes its arguments.
func TestHostileNames(t *testing.T) {
	const evil = `/var/run/a b'";touch caught;$(touch caught)` + "`touch caught`|&<>*~"
	escape := func(s string) string {
		var b strings.Builder
		require.NoError(t, xml.EscapeText(&b, []byte(s)))
		return b.String()
	}
	root := upstreamBin.with(brew, limaManaged("/opt/socket_vmnet/bin/socket_vmnet"), limaSocket("/x", "vz"), tree{
		"/Library/LaunchDaemons/a.plist":          job(escape("label "+evil), "/opt/socket_vmnet/bin/socket_vmnet", escape(evil)),
		"/Users/ann/Library/LaunchAgents/b.plist": job(escape(evil), "/opt/socket_vmnet/bin/socket_vmnet", "/x"),
		"/Library/LaunchDaemons/c.plist": job(escape("brew "+evil), "/opt/homebrew/opt/socket_vmnet/bin/socket_vmnet",
			"--vmnet-gateway=192.168.105.1", escape(evil+"2")),
		"/Users/ann/.lima/_config/networks.yaml":                    networksYAML("/opt/socket_vmnet/bin/socket_vmnet", "$(touch caught)"),
		"/Users/ann/.lima/;touch caught;/lima.yaml":                 "networks:\n- socket: /x\n",
		"/Users/ann/.minikube/profiles/$(touch caught)/config.json": `{"Driver":"qemu2","Network":"socket_vmnet"}`,
	}).build(t)
	bin, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"sudo", "launchctl", "limactl", "brew", "grep", "mv", "sed", "minikube"} {
		text := "#!/bin/sh\nfor a; do printf '%s\\n' \"$a\" >>'" + dir + "/words'; done\n"
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755)) //nolint:gosec // a program
	}
	commands := 0
	for _, c := range plan(t, root).Changes {
		for _, s := range append(append(append(c.Steps, c.Check...), c.Undo...), c.Steps...) {
			if s.Command == "" || strings.HasPrefix(s.Command, "/") {
				continue
			}
			commands++
			cmd := exec.Command("sh", "-c", s.Command)
			cmd.Dir, cmd.Env = dir, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s\n%s", s.Command, out)
		}
	}
	assert.Greater(t, commands, 10)
	b, err := os.ReadFile(filepath.Join(dir, "words"))
	require.NoError(t, err)
	words := strings.Split(string(b), "\n")
	assert.Contains(t, words, evil+"2", "the socket is one word")
	assert.Contains(t, words, "system/label "+evil, "and so is the label")
	for _, where := range []string{dir, bin, root} {
		assert.NoFileExists(t, filepath.Join(where, "caught"))
	}
	assert.NoFileExists(t, "caught")
	for _, m := range plan(t, root).Machines {
		assert.NotContains(t, m.Name, "touch", "no name that its tool would take")
	}
}
