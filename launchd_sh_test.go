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

// fakeLaunchctl is launchctl as etc/launchd.sh uses it: a file below JOBS for each loaded job, with what "print" says of it.
// A job that is booted out is there for two more looks.
const fakeLaunchctl = `#!/bin/sh
echo "$*" >> "$JOBS/calls"
file() { echo "$JOBS/$(echo "$1" | tr / _)"; }
case "$1" in
print)
	f=$(file "$2")
	[ -f "$f" ] || { echo "Could not find service" >&2; exit 113; }
	cat "$f"
	if [ -f "$f.ending" ]; then
		if [ -f "$f.ending2" ]; then rm "$f" "$f.ending" "$f.ending2"; else : > "$f.ending2"; fi
	fi ;;
bootout) f=$(file "$2"); [ -f "$f" ] || exit 3; : > "$f.ending" ;;
bootstrap)
	[ "$2" = system ] && [ -f "$3" ] || exit 5
	f=$(file "system/$(basename "$3" .plist)")
	[ ! -f "$f" ] || { echo "Bootstrap failed: 5: Input/output error" >&2; exit 5; }
	cp "$3" "$f" ;;
enable | kickstart) ;;
*) exit 64 ;;
esac
`

// A launchd is a fake one.
type launchd struct {
	t    *testing.T
	jobs string
	path string
}

func newLaunchd(t *testing.T) launchd {
	t.Helper()
	l := launchd{t, t.TempDir(), t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(l.path, "launchctl"), []byte(fakeLaunchctl), 0o755))
	return l
}

// load makes a job one that is loaded, with these arguments.
func (l launchd) load(target string, args ...string) {
	l.t.Helper()
	text := target + " = {\n\tstate = running\n\targuments = {\n\t\t" + strings.Join(args, "\n\t\t") + "\n\t}\n}\n"
	require.NoError(l.t, os.WriteFile(filepath.Join(l.jobs, strings.ReplaceAll(target, "/", "_")), []byte(text), 0o600))
}

// run runs etc/launchd.sh.
func (l launchd) run(args ...string) (string, error) {
	c := exec.CommandContext(l.t.Context(), "etc/launchd.sh", args...)
	c.Env = append(os.Environ(), "PATH="+l.path+":"+os.Getenv("PATH"), "JOBS="+l.jobs, "SUDO_UID=501")
	out, err := c.CombinedOutput()
	return string(out), err
}

// calls are what launchctl was asked to change.
func (l launchd) calls() (calls []string) {
	b, _ := os.ReadFile(filepath.Join(l.jobs, "calls"))
	for c := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n") {
		if !strings.HasPrefix(c, "print ") && c != "" {
			calls = append(calls, c)
		}
	}
	return calls
}

const (
	ownLabel   = "io.github.socket-vmnet2.socket_vmnet2"
	ownPlist   = "etc/launchd/" + ownLabel + ".plist"
	ownBridged = "etc/launchd/" + ownLabel + ".bridged.en0.plist"
)

// A job that would be in the way is named with the command that stops it, before anything is installed.
func TestLaunchdConflicts(t *testing.T) {
	shared := []string{"/opt/socket_vmnet/bin/socket_vmnet", "--vmnet-gateway=192.168.105.1", "/var/run/socket_vmnet"}
	for name, test := range map[string]struct {
		target  string
		args    []string
		want    string // "": no conflict
		bridged string // the interface that make installs the job for, if not en0
	}{
		"nothing":              {"system/other", shared, "", ""},
		"socket_vmnet's":       {"system/io.github.lima-vm.socket_vmnet", shared, "uses /var/run/socket_vmnet, too, so the new one could not start. Nothing was changed. Stop it: sudo launchctl bootout system/io.github.lima-vm.socket_vmnet && ", ""},
		"Homebrew's":           {"system/homebrew.mxcl.socket_vmnet", []string{"x", "--vmnet-gateway=192.168.105.1", "/opt/homebrew/var/run/socket_vmnet"}, "homebrew.mxcl.socket_vmnet is loaded and uses --vmnet-gateway=192.168.105.1, too, so the new one could not start. Nothing was changed. Stop it: sudo brew services stop socket_vmnet;", ""},
		"Homebrew's, a user's": {"gui/501/homebrew.mxcl.socket_vmnet2", shared, "Stop it: brew services stop socket_vmnet2;", ""},
		"MacPorts'":            {"system/org.macports.socket_vmnet", shared, "Stop it: sudo port unload socket_vmnet;", ""},
		"bridged":              {"system/io.github.lima-vm.socket_vmnet.bridged.en0", []string{"x", "/var/run/socket_vmnet.bridged.en0"}, "uses /var/run/socket_vmnet.bridged.en0, too", ""},
		"bridged elsewhere":    {"system/io.github.lima-vm.socket_vmnet.bridged.en0", []string{"x", "/var/run/socket_vmnet.bridged.en1"}, "", ""},
		"bridged by make":      {"system/io.github.lima-vm.socket_vmnet.bridged.en7", []string{"x", "/var/run/socket_vmnet.bridged.en7"}, "uses /var/run/socket_vmnet.bridged.en7, too", "en7"},
		"bridged beside that":  {"system/io.github.lima-vm.socket_vmnet.bridged.en0", []string{"x", "/var/run/socket_vmnet.bridged.en0"}, "", "en7"},
		"another network":      {"system/io.github.lima-vm.socket_vmnet", []string{"x", "--vmnet-gateway=192.168.105.11", "/var/run/socket_vmnet.other"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("BRIDGED", test.bridged)
			l := newLaunchd(t)
			l.load(test.target, test.args...)
			out, err := l.run("check", ownPlist, ownBridged)
			if test.want == "" {
				require.NoError(t, err, out)
				assert.Empty(t, out)
			} else {
				require.Error(t, err)
				assert.Contains(t, out, test.want)
			}
			assert.Empty(t, l.calls(), "it is only looked")
		})
	}
}

func TestLaunchdLoad(t *testing.T) {
	l := newLaunchd(t)
	out, err := l.run("load", ownLabel, ownPlist)
	require.NoError(t, err, out)
	want := []string{"enable system/" + ownLabel, "bootstrap system " + ownPlist, "kickstart -p system/" + ownLabel}
	assert.Equal(t, want, l.calls())

	out, err = l.run("load", ownLabel, ownPlist)
	require.NoError(t, err, "loaded already is no failure: %s", out)
	assert.Contains(t, out, "is loaded already; it is started anew")
	assert.Equal(t, append(append(want, "bootout system/"+ownLabel), want...), l.calls())

	out, err = l.run("unload", ownLabel)
	require.NoError(t, err, out)
	assert.Equal(t, "bootout system/"+ownLabel, l.calls()[len(l.calls())-1])
	_, _ = l.run("check", ownPlist) // time passes
	out, err = l.run("unload", "none")
	require.NoError(t, err, "what is not loaded needs not be stopped: %s", out)

	out, err = l.run("load", "none", "/nowhere/none.plist")
	require.Error(t, err)
	assert.Contains(t, out, "launchd does not take /nowhere/none.plist; what is wrong with it: plutil -lint '/nowhere/none.plist'")
	for _, args := range [][]string{{}, {"load"}, {"load", "x"}, {"unload"}, {"other"}} {
		out, err = l.run(args...)
		require.Error(t, err)
		assert.Contains(t, out, "usage: ")
	}
}
