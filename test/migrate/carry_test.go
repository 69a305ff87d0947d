// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/migrate"
	"github.com/socket-vmnet2/socket_vmnet2/internal/service"
)

// A workplace is where the commands of a plan are run: the machine's programs that a Linux does not have are stand-ins that
// note how they were called, and sudo just runs what it is given.
type workplace struct {
	dir, bin, log string
	root          string
}

func newWorkplace(t *testing.T, root string) *workplace {
	t.Helper()
	w := &workplace{dir: t.TempDir(), bin: t.TempDir(), root: root}
	w.log = filepath.Join(w.dir, "calls")
	note := "#!/bin/sh\necho \"$(basename \"$0\")\" \"$@\" >>'" + w.log + "'\n"
	w.script(t, "launchctl", note+"[ \"$1\" != print ] || echo '	state = running'\n")
	for _, name := range []string{"brew", "port", "colima", "minikube"} {
		w.script(t, name, note)
	}
	w.script(t, "sudo", "#!/bin/sh\nexec \"$@\"\n")
	if os.Geteuid() != 0 {
		path, err := exec.LookPath("install")
		require.NoError(t, err)
		w.script(t, "install", "#!/bin/sh\nshift 2 # -o root\nexec "+path+" \"$@\"\n")
	}
	// What Lima makes of its file, for this test: the path is all that changes in it.
	w.script(t, "limactl", note+`case $1 in sudoers) path=$(sed -n 's|^ *socketVMNet: *"\(.*\)"|\1|p' '`+root+`/Users/ann/.lima/_config/networks.yaml')
	sed "s|@PATH@|$path|g" '`+w.dir+`/sudoers';; esac
`)
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "sudoers"), []byte(sudoers("@PATH@", "admin")), 0o600))
	return w
}

func (w *workplace) script(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(w.bin, name), []byte(text), 0o755)) //nolint:gosec // a program
}

// do runs the commands of a plan in their order.
func (w *workplace) do(t *testing.T, steps []migrate.Step) {
	t.Helper()
	for _, s := range steps {
		if s.Command == "" {
			continue
		}
		w.one(t, s.Command)
	}
}

func (w *workplace) one(t *testing.T, line string) {
	t.Helper()
	if strings.Contains(line, " service ") {
		w.service(t, line)
		return
	}
	// Homebrew and MacPorts have their programs at fixed paths.
	line = strings.ReplaceAll(line, "/opt/homebrew/bin/brew", "brew")
	line = strings.ReplaceAll(line, "/opt/local/bin/port", "port")
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "PATH="+w.bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", line, out)
}

// service runs a service command on a macOS that is made up, as far as it goes without a launchd: to the file and the commands
// that it would write and run, with the daemon's options checked.
func (w *workplace) service(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(strings.TrimPrefix(line, "sudo "))
	require.Equal(t, filepath.Join(w.root, "/opt/socket_vmnet/bin/socket_vmnet2"), words[0])
	o := service.Options{Prefix: service.DefaultPrefix, Installing: words[2] == "install"}
	options, daemon := words[3:], []string(nil)
	if i := slices.Index(words, "--"); i >= 0 {
		options, daemon = words[3:i], words[i+1:]
	}
	o.Daemon, o.DaemonSet = daemon, daemon != nil
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		*map[string]*string{"--network": &o.Network, "--interface": &o.Interface, "--name": &o.Name}[name] = value
	}
	var out strings.Builder
	var warnings []string
	s, err := service.New(w.macOS(), o, service.Run{Out: &out, Dry: true, Warn: func(text string) { warnings = append(warnings, text) }})
	require.NoError(t, err, line)
	switch words[2] {
	case "install":
		require.NoError(t, s.Install(t.Context()), line)
		assert.Contains(t, out.String(), "<string>"+words[len(words)-1]+"</string>", "the socket")
		assert.Contains(t, out.String(), "/opt/socket_vmnet/bin/socket_vmnet2</string>")
	case "uninstall":
		require.NoError(t, s.Uninstall(t.Context()), line)
	case "status":
		_, err := s.Status(t.Context())
		require.NoError(t, err, line)
	default:
		t.Errorf("a plan needs no such command: %s", line)
	}
	assert.Empty(t, warnings, line)
}

// macOS is a system on which launchd knows nothing yet.
func (w *workplace) macOS() *service.System {
	return &service.System{
		GOOS: "darwin", Root: w.root, Home: "/Users/ann", Darwin: 25,
		Run: func(_ context.Context, argv ...string) (service.Result, error) {
			if len(argv) > 1 && argv[1] == "print" {
				return service.Result{Code: 113, Stderr: "Could not find service"}, nil
			}
			return service.Result{}, nil
		},
		Find:    func(string) error { return nil },
		Manager: func() string { return "darwin-launchd" },
		Reach:   func(string) error { return syscall.ECONNREFUSED },
		Group:   func(string) (int, error) { return 20, nil },
		Account: func(string) error { return nil },
	}
}

func (w *workplace) calls(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(w.log)
	if os.IsNotExist(err) {
		return ""
	}
	require.NoError(t, err)
	return string(b)
}

// TestCarriedOut runs every command of the plans: after those of the plan migrate says that it is done, and after those of the
// way back the system is what it was, byte for byte.
func TestCarriedOut(t *testing.T) {
	tests := map[string]struct {
		calls []string // among those that the plan made
	}{
		"upstream": {calls: []string{
			"launchctl kickstart -k system/io.github.lima-vm.socket_vmnet\n",
			"launchctl kickstart -k system/io.github.lima-vm.socket_vmnet.bridged.en0\n",
			"minikube stop --profile=minikube\nminikube start --profile=minikube\n",
		}},
		"homebrew":      {calls: []string{"brew services stop socket_vmnet\n", "limactl stop sock\nminikube stop", "limactl start sock\nminikube start"}},
		"macports":      {calls: []string{"port unload socket_vmnet\n"}},
		"lima":          {calls: []string{"limactl stop dev\nlimactl start dev\n"}},
		"lima-homebrew": {calls: []string{"limactl sudoers\n", "limactl stop dev\nlimactl start dev\n"}},
		"lima-socket":   {calls: []string{"launchctl kickstart -k system/io.github.lima-vm.socket_vmnet\n", "limactl stop sock\nlimactl start sock\n"}},
		"colima":        {calls: []string{"colima stop default\ncolima start default\n"}},
		"gone":          {calls: []string{"launchctl kickstart -k system/io.github.lima-vm.socket_vmnet\n", "limactl sudoers\n", "limactl stop dev\n"}},
		"mixed":         {calls: []string{"brew services stop socket_vmnet\n", "port unload socket_vmnet\n", "colima stop default\n"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := trees[name].tree.build(t)
			before := snapshot(t, root, false)
			w := newWorkplace(t, root)
			first := plan(t, root)
			require.Equal(t, migrate.VerdictMigrate, first.Verdict)

			for _, c := range first.Changes {
				w.do(t, c.Steps)
			}
			calls := w.calls(t)
			for _, want := range tt.calls {
				assert.Contains(t, calls, want)
			}
			after := plan(t, root)
			assertMoved(t, after)
			if name == "upstream" || name == "lima" {
				assert.Equal(t, migrate.VerdictDone, after.Verdict)
				golden(t, name+".done.txt", neutral(run(t, "--root="+root).out, root))
			}

			for _, c := range first.Changes {
				w.do(t, c.Check)
			}
			for _, c := range slices.Backward(first.Changes) {
				w.do(t, c.Undo)
			}
			got := snapshot(t, root, false)
			// Lima's sudoers file was written twice, with the same content in the end.
			if sudoers := "private/etc/sudoers.d/lima"; before[sudoers] != "" {
				if name != "mixed" { // there it was out of date
					assert.Equal(t, hash(before[sudoers]), hash(got[sudoers]))
				}
				delete(before, sudoers)
				delete(got, sudoers)
			}
			assert.Equal(t, before, got, "as it was")
			assert.Equal(t, migrate.VerdictMigrate, plan(t, root).Verdict, "and to be moved again")
		})
	}
}

// hash is the last field of a snapshot's line.
func hash(line string) string { return line[strings.LastIndexByte(line, ' ')+1:] }

// assertMoved looks for an install of ours in a plan, and that Lima's networks are on it.
func assertMoved(t *testing.T, p *migrate.Plan) {
	t.Helper()
	ours := map[string]bool{}
	for _, in := range p.Installs {
		ours[in.Program] = in.Ours
		if in.Ours {
			assert.True(t, in.Backup, "%s: there is a way back", in.Program)
		}
	}
	assert.Contains(t, ours, firstOurs(p))
	for _, n := range p.Networks {
		assert.True(t, ours[n.Program], "%s runs %s", n.Name, n.Program)
	}
	for _, c := range p.Changes {
		if c.State == migrate.StateDone {
			assert.NotEmpty(t, c.Undo)
			assert.Empty(t, c.Steps)
		}
	}
}

func firstOurs(p *migrate.Plan) string {
	for _, in := range p.Installs {
		if in.Ours {
			return in.Program
		}
	}
	return "none is ours"
}
