// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"howett.net/plist"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
)

// A commandLine is one that a file in etc has, to the letter.
type commandLine struct {
	file string
	argv []string
	// activated: systemd-socket-activate stands for the manager that makes the socket.
	activated bool
}

// commandLines are all in etc, in the rig. What a user or systemd fills in is filled in.
func commandLines(t *testing.T) (all []commandLine) {
	t.Helper()
	files, err := filepath.Glob(rigEtc + "launchd/*.plist")
	require.NoError(t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		var job struct {
			ProgramArguments []string
			Sockets          map[string]any
		}
		_, err = plist.Unmarshal([]byte(strings.ReplaceAll(string(b), "@HOME@", "/home/user")), &job)
		require.NoError(t, err)
		all = append(all, commandLine{file, job.ProgramArguments, job.Sockets != nil})
	}
	for _, pattern := range []string{"systemd/*.service", "systemd/user/*.service"} {
		files, err = filepath.Glob(rigEtc + pattern)
		require.NoError(t, err)
		for _, file := range files {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			argv := find.Command(file, string(b), "/run/user/1000")
			all = append(all, commandLine{file, argv, false}, commandLine{file, argv, true})
		}
	}
	b, err := os.ReadFile(rigEtc + "sudoers.d/socket_vmnet2")
	require.NoError(t, err)
	for _, line := range regexp.MustCompile(`(?m)(/opt/socket_vmnet/[^,\n]+),?`).FindAllStringSubmatch(strings.ReplaceAll(string(b), "\\\n", ""), -1) {
		all = append(all, commandLine{"sudoers.d", strings.Fields(strings.TrimSuffix(line[1], " \\")), false})
	}
	return all
}

// TestExactArguments runs every command line in etc as it stands there: the daemon serves, and ends when it is asked to. Bridged
// mode needs macOS: there the daemon says just that, and nothing else is wrong with its options.
func TestExactArguments(t *testing.T) {
	if !inside(t, false) {
		return
	}
	all := commandLines(t)
	assert.Len(t, all, 5+2*3+4, "5 property lists, 3 units in two ways, 4 lines for sudo")
	for _, c := range all {
		name := strings.TrimPrefix(c.file, rigEtc)
		if c.activated {
			name += " activated"
		}
		t.Run(name, func(t *testing.T) {
			require.Equal(t, rigProgram, c.argv[0])
			socket := c.argv[len(c.argv)-1]
			require.NoError(t, os.MkdirAll(filepath.Dir(socket), 0o755))
			if strings.Contains(strings.Join(c.argv, " "), "bridged") {
				out, err := exec.CommandContext(t.Context(), c.argv[0], c.argv[1:]...).CombinedOutput()
				require.Error(t, err)
				assert.Regexp(t, `^(WARN \|[^\n]*\n)*ERROR\| [^\n]*bridged[^\n]*\n$`, string(out))
				return
			}
			argv := c.argv
			if c.activated {
				argv = append([]string{"/usr/bin/systemd-socket-activate", "--listen=" + socket, "--fdname=stream"}, argv...)
			}
			d := startDaemon(t, []string{"HOME=/home/user", "XDG_RUNTIME_DIR=/run/user/1000"}, argv...)
			eventually(t, socket+" is served", func() bool { return reach(socket) == nil })
			if c.activated { // the socket was there before the daemon, which ends in order only when it is there
				eventually(t, "the network is up", func() bool { _, err := os.Stat(socket + ".d/control"); return err == nil })
			}
			d.end()
			_ = os.Remove(socket)
			if c.activated {
				assert.Contains(t, d.log.String(), "listening sockets were given by the service manager")
			}
		})
	}
}
