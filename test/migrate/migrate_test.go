// SPDX-License-Identifier: Apache-2.0

// Package migrate_test runs the built socket_vmnet2 migrate on staged systems as installers leave them and compares its plans with
// golden ones.
package migrate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/migrate"
)

var update = flag.Bool("update", false, "write the golden plans, and the sample in docs/migrate.md")

// version is what the built programs say of themselves.
const version = "v9.8.7"

// programs is the directory of the built programs.
var programs string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "migrate-programs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // another user runs what is in it
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, name := range []string{"socket_vmnet2", "socket_vmnet_client", "vmnet-helper"} {
		cmd := exec.Command("go", "build", "-ldflags", "-s -w -X github.com/socket-vmnet2/socket_vmnet2/internal/compat.Version="+version,
			"-o", filepath.Join(dir, name), "github.com/socket-vmnet2/socket_vmnet2/cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", name, err, out)
			return 1
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "socket_vmnet2"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "socket_vmnet"), b, 0o755) //nolint:gosec // a program
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs = dir
	return m.Run()
}

func program() string { return filepath.Join(programs, "socket_vmnet2") }

// result is what a run of the program came to.
type result struct {
	out, err string
	code     int
}

// run runs socket_vmnet2 migrate.
func run(tb testing.TB, args ...string) result {
	tb.Helper()
	return runCommand(tb, exec.Command(program(), append([]string{"migrate"}, args...)...))
}

func runCommand(tb testing.TB, cmd *exec.Cmd) result {
	tb.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		require.NoError(tb, err, "%v", cmd.Args)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// plan runs migrate on a staged system.
func plan(tb testing.TB, root string) *migrate.Plan {
	tb.Helper()
	r := run(tb, "--json", "--root="+root)
	require.Contains(tb, []int{0, 2}, r.code, r.err)
	require.Empty(tb, r.err)
	p := &migrate.Plan{}
	d := json.NewDecoder(strings.NewReader(r.out))
	d.DisallowUnknownFields()
	require.NoError(tb, d.Decode(p))
	return p
}

var trees = map[string]struct {
	tree tree
	code int
}{
	"empty":    {tree{"/opt": "dir", "/Users/ann": "dir"}, 2},
	"upstream": {upstreamBin.with(upstreamJob, upstreamBridged, minikube("/var/run/socket_vmnet", "/opt/socket_vmnet/bin/socket_vmnet_client")), 0},
	"homebrew": {
		brew.with(brewJob, minikube("/opt/homebrew/var/run/socket_vmnet", "/opt/homebrew/opt/socket_vmnet/bin/socket_vmnet_client"),
			limaSocket("/opt/homebrew/var/run/socket_vmnet", "vz")), 0,
	},
	"macports":      {macPorts, 0},
	"lima":          {upstreamBin.with(limaManaged("/opt/socket_vmnet/bin/socket_vmnet")), 0},
	"lima-homebrew": {brew.with(limaManaged("/opt/homebrew/Cellar/socket_vmnet/1.1.6/bin/socket_vmnet")), 0},
	"lima-socket":   {upstreamBin.with(upstreamJob, limaSocket("/var/run/socket_vmnet", "qemu")), 0},
	"colima":        {colima, 0},
	"rancher-finch": {tree{
		"/opt/rancher-desktop/bin/socket_vmnet": cProgram("v1.2.2"),
		"/opt/finch/bin/socket_vmnet":           cProgram("v1.2.2"),
		"/Users/ann/Library/Application Support/rancher-desktop/lima/_config/networks.yaml": strings.ReplaceAll(strings.ReplaceAll(
			networksYAML("/opt/rancher-desktop/bin/socket_vmnet", "everyone"), "192.168.10", "192.168.20"), "/private/var/run/lima", "/private/var/run"),
		"/Users/ann/Library/Application Support/rancher-desktop/lima/0/lima.yaml": "vmType: vz\nnetworks:\n- lima: shared\n",
	}, 2},
	"mixed": {
		upstreamBin.with(upstreamJob, brew, brewJob, macPorts, colima, limaManaged("/opt/homebrew/Cellar/socket_vmnet/1.1.6/bin/socket_vmnet"), tree{
			"/private/etc/sudoers.d/lima": "# of an older version\n",
		}), 0,
	},
	"damaged": {damaged, 0},
	// Homebrew has a newer version, and socket_vmnet's own install was removed by hand.
	"gone": {limaManaged("/opt/homebrew/Cellar/socket_vmnet/1.1.5/bin/socket_vmnet").with(brew, upstreamJob, tree{
		"/opt/socket_vmnet/bin/socket_vmnet_client": cProgram("v1.2.2"),
	}), 0},
}

// damaged is a system whose every file is something else than it should be.
var damaged = upstreamBin.with(tree{
	"/opt/socket_vmnet/bin/socket_vmnet":                          "",
	"/Library/LaunchDaemons/io.github.lima-vm.socket_vmnet.plist": "<plist><dict><key>Label",
	"/Library/LaunchDaemons/org.macports.socket_vmnet.plist":      job("org.macports.socket_vmnet", "/bin/sh", "-c", "socket_vmnet"),
	"/Library/LaunchDaemons/other.plist":                          "no list",
	"/Library/LaunchDaemons/odd.plist":                            job("odd\nlabel'; x", "/gone/socket_vmnet2", "--vmnet-gateway=10.2.3.4", "/var/run/o d'd"),
	"/Library/LaunchDaemons/directory.plist/x":                    "",
	"/Users/ann/.lima/_config/networks.yaml":                      "|",
	"/Users/ann/.lima/loop/lima.yaml":                             "-> lima.yaml",
	"/Users/ann/.lima/deep/lima.yaml":                             "networks: " + strings.Repeat("[", 500),
	"/Users/ann/.lima/types/lima.yaml":                            "vmType: [1]\nnetworks: text\n",
	"/Users/ann/.lima/large/lima.yaml":                            strings.Repeat("# comment\n", 40000),
	"/Users/ann/.lima/out/lima.yaml":                              "-> /../../../../../../../etc/passwd",
	"/Users/ann/.lima/-rf/lima.yaml":                              "vmType: vz\nnetworks:\n- socket: /var/run/socket_vmnet\n",
	"/Users/ann/.minikube/profiles/p/config.json":                 `{"Driver": 1}`,
	"/Users/ann/.colima/default/colima.yaml":                      "network: \x1b[2J\n",
	"/opt/local/bin/socket_vmnet":                                 "-> socket_vmnet",
	"/opt/colima/bin/socket_vmnet":                                "dir",
})

// golden compares text with a file, or writes it.
func golden(tb testing.TB, name, text string) {
	tb.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(tb, os.WriteFile(path, []byte(text), 0o644)) //nolint:gosec // a file of the repository
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(tb, err)
	assert.Equal(tb, string(want), text, "if the new plan is better: go test ./test/migrate -update")
}

// neutral leaves out what differs from run to run.
func neutral(text, root string) string {
	return strings.NewReplacer(root, "/staged", program(), "/download/socket_vmnet2").Replace(text)
}

// TestPlans compares the plan for each staged system with a golden one, and that nothing in the system has changed.
func TestPlans(t *testing.T) {
	for name, tt := range trees {
		t.Run(name, func(t *testing.T) {
			root := tt.tree.build(t)
			before := snapshot(t, root)
			text := run(t, "--root="+root)
			assert.Equal(t, tt.code, text.code)
			assert.Empty(t, text.err)
			golden(t, name+".txt", neutral(text.out, root))
			asJSON := run(t, "--json", "--root="+root)
			assert.Equal(t, tt.code, asJSON.code)
			assert.Empty(t, asJSON.err)
			golden(t, name+".json", neutral(asJSON.out, root))
			assert.Equal(t, before, snapshot(t, root), "nothing is written")
			for _, r := range asJSON.out + text.out {
				assert.True(t, r == '\n' || r >= ' ' && r != 0x7f, "%q", r)
			}
		})
	}
}

// TestWithoutPermission runs as a user who may write nothing, and read not all.
func TestWithoutPermission(t *testing.T) {
	root := upstreamBin.with(upstreamJob, limaManaged("/opt/socket_vmnet/bin/socket_vmnet")).build(t)
	secret := filepath.Join(root, "private/etc/sudoers.d")
	require.NoError(t, os.Chmod(secret, 0)) // root may still: it becomes nobody below
	t.Cleanup(func() { _ = os.Chmod(secret, 0o755) })
	cmd := exec.Command(program(), "migrate", "--root="+root)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		for dir := filepath.Dir(root); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // a directory of this test
		}
	}
	r := runCommand(t, cmd)
	assert.Equal(t, 0, r.code, r.err)
	assert.Contains(t, r.out, "/private/etc/sudoers.d/lima: permission denied; run this again with sudo")
	assert.Contains(t, r.out, "sudoers file not readable")
	assert.Contains(t, r.out, " install --root=")
}

func TestBadCommandLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	tests := []struct {
		name  string
		args  []string
		want  string
		usage bool
	}{
		{"operand", []string{"x"}, `migrate takes options only, not "x"`, true},
		{"unknown option", []string{"--write"}, "unknown option --write", true},
		{"no directory", []string{"--root=" + file + "x"}, "--root=" + file + "x: there is no such directory", false},
		{"file", []string{"--root=" + file}, "--root=" + file + " is not a directory", false},
		{"empty root", []string{"--root="}, "--root needs a directory", true},
		{"relative home", []string{"--home=x"}, "--home=x is not absolute", true},
		{"no home", []string{"--home=" + file}, "--home=" + file + " is not a directory", false},
		{"value for json", []string{"--json=x"}, "option --json takes no argument", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := run(t, tt.args...)
			assert.Equal(t, 1, r.code)
			assert.Contains(t, r.err, "ERROR| "+tt.want)
			assert.Equal(t, tt.usage, strings.HasPrefix(r.out, "Usage: socket_vmnet2 migrate "), r.out)
		})
	}
	r := run(t, "--help")
	assert.Equal(t, 0, r.code)
	assert.Contains(t, r.out, "\nExit code: 0 ")
}
