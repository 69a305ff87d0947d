// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
)

var update = flag.Bool("update", false, "write what service install writes to etc/launchd and etc/systemd")

// etc is where the files are that come with the program.
const etc = "../../../etc/"

// shipped are the files that come with the program, and what installs the very same.
var shipped = []struct {
	file string
	goos string
	o    JobOptions
}{
	{"launchd/io.github.socket-vmnet2.socket_vmnet2.plist", "darwin", JobOptions{}},
	{"launchd/io.github.socket-vmnet2.socket_vmnet2.host.plist", "darwin", JobOptions{Network: "host"}},
	{"launchd/io.github.socket-vmnet2.socket_vmnet2.bridged.en0.plist", "darwin", JobOptions{Network: "bridged", Interface: "en0"}},
	{"launchd/io.github.socket-vmnet2.socket_vmnet2.activated.plist", "darwin", JobOptions{Activated: true}},
	{"launchd/io.github.socket-vmnet2.socket_vmnet2.agent.plist", "darwin", JobOptions{User: true}},
	{"systemd/socket_vmnet2.service", "linux", JobOptions{}},
	{"systemd/socket_vmnet2.socket", "linux", JobOptions{Activated: true}},
	{"systemd/socket_vmnet2-host.service", "linux", JobOptions{Network: "host"}},
	{"systemd/socket_vmnet2-host.socket", "linux", JobOptions{Network: "host", Activated: true}},
	{"systemd/user/socket_vmnet2.service", "linux", JobOptions{User: true}},
	{"systemd/user/socket_vmnet2.socket", "linux", JobOptions{User: true, Activated: true}},
}

// shipping is the system that made the files: @HOME@ is what a user puts the home directory in for.
func shipping(goos string) *system {
	return &system{System: find.System{GOOS: goos}, Home: "@HOME@", RuntimeDir: "/run/user/1000", UID: 1000}
}

// TestShipped compares what is installed for the default prefix with the files in etc, byte for byte.
func TestShipped(t *testing.T) {
	files, err := filepath.Glob(etc + "launchd/*")
	require.NoError(t, err)
	assert.Len(t, files, 5, "others are of no use")
	for _, tt := range shipped {
		t.Run(tt.file, func(t *testing.T) {
			o := tt.o
			o.Installing = true
			sys := shipping(tt.goos)
			if o.User && tt.goos == "darwin" {
				o.Daemon = []string{"--vmnet-gateway=192.168.105.1", "/@HOME@/.socket_vmnet2/shared"}
			}
			j, err := NewJob(sys, o)
			require.NoError(t, err)
			if o.User && tt.goos == "darwin" { // a path begins with a slash, and the home directory brings it
				j.Args[1] = "@HOME@/.socket_vmnet2/shared"
			}
			text := j.text(tt.file)
			if *update {
				require.NoError(t, os.MkdirAll(filepath.Dir(etc+tt.file), 0o755))
				require.NoError(t, os.WriteFile(etc+tt.file, []byte(text), 0o644))
			}
			want, err := os.ReadFile(etc + tt.file)
			require.NoError(t, err)
			assert.Equal(t, string(want), text, "go test ./internal/ops/setup -run TestShipped -update writes it")
		})
	}
}

// TestLinuxNames holds together who may use the socket on Linux, and where it is: service, units, sysusers.d, doctor, Makefile and page.
func TestLinuxNames(t *testing.T) {
	j, err := NewJob(shipping("linux"), JobOptions{Installing: true})
	require.NoError(t, err)
	for file, want := range map[string]string{
		"systemd/socket_vmnet2.service":          "\nGroup=" + linuxGroup + "\n",
		"systemd/socket_vmnet2.socket":           "\nSocketGroup=" + linuxGroup + "\n",
		"sysusers.d/socket_vmnet2.conf":          "\ng " + linuxGroup + " -\n",
		"install.mk":                             "socket: " + j.link() + ", for root and the group $(if $(filter linux,$(TARGETOS))," + linuxGroup + ",staff)",
		"../internal/ops/doctor/check_access.go": `"staff", "` + linuxGroup + `"`,
		"../docs/install.md":                     "| who may use them | root and the group `staff` | root and the group `" + linuxGroup + "`",
		"../cmd/socket_vmnet2/service.go":        j.link(),
	} {
		text, err := os.ReadFile(etc + file)
		require.NoError(t, err)
		assert.Contains(t, string(text), want, file)
	}
}

// tool is the path of a program that a test needs.
func tool(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range []string{"/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/"} {
		if _, err := os.Stat(dir + name); err == nil {
			return dir + name
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no " + name)
	}
	t.Skip("needs " + name + ", which test/e2e/setup.sh gets")
	return ""
}

// TestSystemdAnalyze has systemd read the units: no key is unknown, no value is refused. It also tells how much the services are
// exposed, of 10; a unit without any of the settings has 9.6.
func TestSystemdAnalyze(t *testing.T) {
	analyze := tool(t, "systemd-analyze")
	root, err := os.MkdirTemp("", "service-units-")
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(root) }()
	require.NoError(t, os.MkdirAll(root+"/opt/socket_vmnet/bin", 0o755))
	require.NoError(t, os.WriteFile(root+rigProgramPath, nil, 0o755))
	require.NoError(t, os.MkdirAll(root+"/bin", 0o755))
	require.NoError(t, os.WriteFile(root+"/bin/sh", nil, 0o755))
	for _, unit := range []string{"sysinit", "basic", "shutdown", "multi-user", "default", "sockets"} {
		require.NoError(t, os.MkdirAll(root+"/etc/systemd/system", 0o755))
		require.NoError(t, os.WriteFile(root+"/etc/systemd/system/"+unit+".target", []byte("[Unit]\nDefaultDependencies=no\n"), 0o644))
	}
	verify := func(t *testing.T, dir string) string {
		t.Helper()
		files, err := filepath.Glob(dir + "*.s*")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		args := []string{"verify", "--man=no", "--root=" + root}
		for _, file := range files {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			to := root + "/etc/systemd/system/" + filepath.Base(file)
			require.NoError(t, os.WriteFile(to, b, 0o644))
			args = append(args, strings.TrimPrefix(to, root))
		}
		out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
		if err != nil {
			return err.Error() + ": " + string(out)
		}
		return string(out)
	}
	for _, dir := range []string{etc + "systemd/", etc + "systemd/user/"} {
		assert.Empty(t, verify(t, dir), dir)
	}
	bad := t.TempDir() + "/"
	require.NoError(t, os.WriteFile(bad+"x.service", []byte("[Service]\nExecStart=/nowhere\nRestart=perhaps\n"), 0o644))
	assert.NotEmpty(t, verify(t, bad), "it does find faults")

	out, err := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--no-pager", "--threshold=30", etc+"systemd/socket_vmnet2.service").CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	t.Log(lines[len(lines)-1])
	assert.NoError(t, err, "exposure above 3.0:\n%s", out)
}

const rigProgramPath = "/opt/socket_vmnet/bin/socket_vmnet2"

// TestSudoers checks the file with visudo, and its command lines with the daemon's own parser.
func TestSudoers(t *testing.T) {
	visudo := tool(t, "visudo")
	b, err := os.ReadFile(etc + "sudoers.d/socket_vmnet2")
	require.NoError(t, err)
	check := func(text string) error {
		file := t.TempDir() + "/sudoers"
		require.NoError(t, os.WriteFile(file, []byte(text), 0o440))
		out, err := exec.CommandContext(t.Context(), visudo, "-cf", file).CombinedOutput()
		t.Log(string(out))
		return err
	}
	require.NoError(t, check(string(b)))
	require.Error(t, check(strings.Replace(string(b), "NOPASSWD:", "NOPASSWD", 1)), "it does find faults")

	lines := regexp.MustCompile(`/opt/socket_vmnet/bin/socket_vmnet2 ([^,\n]*)`).FindAllStringSubmatch(string(b), -1)
	require.Len(t, lines, 4)
	pidfiles := regexp.MustCompile(`/usr/bin/pkill -F (\S+)`).FindAllStringSubmatch(string(b), -1)
	require.Len(t, pidfiles, 3)
	for i, line := range lines {
		cfg, err := (&job{Args: strings.Fields(line[1])}).parse()
		require.NoError(t, err, line[1])
		if i > 0 {
			assert.Equal(t, pidfiles[i-1][1], cfg.Pidfile, "what stops a daemon is next to what starts it")
		}
	}
}
