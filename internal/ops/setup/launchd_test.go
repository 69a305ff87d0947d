// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
)

// A mac is a staged macOS: a tree of files, and a launchd that knows jobs. It runs on any system.
type mac struct {
	t       *testing.T
	sys     *system
	loaded  map[string]string // property lists by target
	stopped map[string]bool   // loaded, and no process
	off     map[string]bool   // disabled
	ending  int               // how often print still shows a job that was unloaded
	served  map[string]bool   // sockets that others serve
	calls   []string          // without print, which only asks
	fail    string            // the verb that fails
	busy    int               // how often load fails after unload
	jobs    map[string]string // what each target serves
}

func newMac(t *testing.T) *mac {
	t.Helper()
	m := &mac{t: t, loaded: map[string]string{}, stopped: map[string]bool{}, off: map[string]bool{}, served: map[string]bool{}, jobs: map[string]string{}}
	root := t.TempDir()
	for _, dir := range []string{"Library/LaunchDaemons", "var/run", "var/log", "opt/socket_vmnet/bin", "Users/me"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	require.NoError(t, os.WriteFile(root+"/opt/socket_vmnet/bin/socket_vmnet2", nil, 0o755))
	m.sys = &system{
		System: find.System{GOOS: "darwin", Root: root, Run: m.run}, Home: "/Users/me", Darwin: 25, Control: m.control, Reach: m.reach,
		Patience: time.Minute, Tick: time.Millisecond,
	}
	return m
}

// control is what the library does on macOS: it loads and unloads a job by its file.
func (m *mac) control(j *job, verb string) error {
	domain, path := "system/", "/Library/LaunchDaemons/"+j.Name+".plist"
	if j.User {
		domain, path = "gui/501/", "/Users/me/Library/LaunchAgents/"+j.Name+".plist"
	}
	target := domain + j.Name
	command := map[string]string{"start": "load", "stop": "unload"}[verb]
	m.calls = append(m.calls, "launchctl "+command+" "+path)
	b, err := os.ReadFile(m.sys.at(path))
	require.NoError(m.t, err)
	switch {
	case command == "load" && m.busy > 0:
		m.busy--
		m.calls = m.calls[:len(m.calls)-1]
		return errors.New("busy")
	case command == m.fail:
		return errors.New(`"launchctl" failed with stderr: ` + command + " failed: 5: Input/output error")
	case command == "load" && (m.off[target] || m.loaded[target] != "" || m.ending > 0):
		return errors.New(`"launchctl" failed with stderr: Load failed: 5: Input/output error`)
	case command == "load":
		arguments := find.Command(path, string(b), "")
		m.loaded[target], m.jobs[target] = string(b), arguments[len(arguments)-1]
		delete(m.stopped, target)
	case command == "unload":
		delete(m.loaded, target)
		m.ending, m.busy = 2, 1
	default:
		m.t.Errorf("verb %q", verb)
	}
	return nil
}

// reach: a job's socket is served while the job runs.
func (m *mac) reach(path string) error {
	if m.served[path] {
		return nil
	}
	for target, socket := range m.jobs {
		if socket == path && m.loaded[target] != "" && !m.stopped[target] {
			return nil
		}
	}
	return syscall.ECONNREFUSED
}

// run is launchctl.
func (m *mac) run(_ context.Context, name string, args ...string) ([]byte, error) {
	require.Equal(m.t, "launchctl", name)
	if args[0] == "print" {
		return m.print(args[1])
	}
	m.calls = append(m.calls, strings.Join(append([]string{name}, args...), " "))
	require.Equal(m.t, "enable", args[0])
	delete(m.off, args[1])
	return nil, nil
}

func (m *mac) print(target string) ([]byte, error) {
	switch {
	case m.loaded[target] == "" && m.ending > 0:
		m.ending--
		return []byte(target + " = {\n\tstate = running\n\tpid = 7\n}\n"), nil
	case m.loaded[target] == "":
		return nil, fmt.Errorf("%w: Could not find service", &exec.ExitError{})
	case m.stopped[target]:
		return []byte(target + " = {\n\tstate = not running\n\n\tendpoints = {\n\t\tpid = 9\n\t}\n}\n"), nil
	}
	return []byte(target + " = {\n\tactive count = 1\n\tstate = running\n\n\tprogram = x\n\tpid = 4711\n}\n"), nil
}

// service runs one verb, and returns what it prints.
func (m *mac) service(verb string, o JobOptions, dry bool) (string, error) {
	m.t.Helper()
	var out, warnings strings.Builder
	o.Installing, o.Out, o.Dry = verb == "install", &out, dry
	o.Warn = func(text string) { warnings.WriteString("WARN " + text + "\n") }
	j, err := NewJob(m.sys, o)
	if err != nil {
		return "", err
	}
	err = j.Do(m.t.Context(), verb)
	return warnings.String() + out.String(), err
}

// do makes a dry run, which must change nothing, and then the same for real, which must do just what the dry run said.
func (m *mac) do(want, verb string, o JobOptions) {
	m.t.Helper()
	before := filesBelow(m.t, m.sys.Root)
	m.calls = nil
	dry, err := m.service(verb, o, true)
	require.NoError(m.t, err)
	assert.Empty(m.t, m.calls)
	assert.Equal(m.t, before, filesBelow(m.t, m.sys.Root))

	out, err := m.service(verb, o, false)
	require.NoError(m.t, err)
	assert.Contains(m.t, out, want)
	happened(m.t, dry, m.sys.Root, m.sys.Root, before, m.calls)
}

func (m *mac) status(code int, want string, o JobOptions) {
	m.t.Helper()
	var out strings.Builder
	o.Out = &out
	j, err := NewJob(m.sys, o)
	require.NoError(m.t, err)
	got, err := j.Status(m.t.Context())
	require.NoError(m.t, err)
	assert.Equal(m.t, code, got)
	assert.Contains(m.t, out.String(), want)
}

const (
	label   = "io.github.socket-vmnet2.socket_vmnet2"
	target  = "system/" + label
	daemon1 = "/Library/LaunchDaemons/" + label + ".plist"
)

func TestLaunchd(t *testing.T) {
	m := newMac(t)
	old := syscall.Umask(0) // of a careless caller
	defer syscall.Umask(old)
	shared := JobOptions{}
	m.status(exitNotInstalled, label+" is not installed", shared)
	m.do("there is nothing to do", "stop", shared)
	m.do("there is nothing to do", "uninstall", shared)
	m.off[target] = true // it was disabled once

	m.do("is installed and started, on /var/run/socket_vmnet", "install", shared)
	assert.Equal(t, []string{"launchctl enable " + target, "launchctl load " + daemon1}, m.calls)
	want, err := os.ReadFile(etc + "launchd/" + label + ".plist")
	require.NoError(t, err)
	assert.Equal(t, string(want), m.loaded[target], "what launchd has is what is shipped")
	assert.DirExists(t, m.sys.at("/var/log/socket_vmnet2"), "launchd does not make it")
	m.status(exitRunning, "4711", shared)
	m.status(exitRunning, "/var/run/socket_vmnet accepts connections", shared)

	m.do("there is nothing to do", "install", shared)
	m.do("there is nothing to do", "start", shared)
	m.do("is started again", "restart", shared)
	assert.Equal(t, []string{"launchctl unload " + daemon1, "launchctl enable " + target, "launchctl load " + daemon1}, m.calls)
	m.stopped[target] = true
	m.status(exitStopped, "has no process", shared)
	m.do("is started", "start", shared)
	assert.Equal(t, []string{"launchctl unload " + daemon1, "launchctl enable " + target, "launchctl load " + daemon1}, m.calls)
	m.do("is stopped", "stop", shared)
	assert.Equal(t, []string{"launchctl unload " + daemon1}, m.calls)
	m.do("there is nothing to do", "stop", shared)
	m.status(exitStopped, daemon1, shared)
	m.busy = 0 // a while later
	m.do("is installed and started", "install", JobOptions{Network: "host"})
	m.do("is started", "restart", shared)
	m.do("it is changed", "install", JobOptions{Activated: true})
	assert.Equal(t, []string{"launchctl unload " + daemon1, "launchctl enable " + target, "launchctl load " + daemon1}, m.calls)
	assert.Contains(t, m.loaded[target], "<key>Sockets</key>")
	m.do("it is changed", "install", JobOptions{Daemon: []string{"--vmnet-gateway=192.168.109.1", "/var/run/other"}})
	m.status(exitRunning, "/var/run/other accepts", shared)
	m.do("Kept are the logs in /var/log/socket_vmnet2", "uninstall", shared)
	m.status(exitNotInstalled, "is not installed", shared)
	m.status(exitRunning, "192.168.106.1", JobOptions{Network: "host"})
	m.do("there is nothing to do", "uninstall", shared)
}

func TestLaunchdOfAUser(t *testing.T) {
	m := newMac(t)
	m.sys.UID = 501
	o := JobOptions{User: true}
	m.do("is installed and started, on /Users/me/.socket_vmnet2/shared", "install", o)
	assert.Equal(t, []string{"launchctl enable gui/501/" + label, "launchctl load /Users/me/Library/LaunchAgents/" + label + ".plist"}, m.calls)
	want, err := os.ReadFile(etc + "launchd/" + label + ".agent.plist")
	require.NoError(t, err)
	assert.Equal(t, strings.ReplaceAll(string(want), "@HOME@", "/Users/me"), m.loaded["gui/501/"+label])
	fi, err := os.Stat(m.sys.at("/Users/me/.socket_vmnet2"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), fi.Mode().Perm())
	m.do("is uninstalled", "uninstall", o)

	m.sys.Darwin = 24
	_, err = m.service("install", o, false)
	require.ErrorContains(t, err, "--user needs macOS 26: before that, vmnet needs root")
	m.sys.Darwin, m.sys.UID = 25, 0
	_, err = m.service("install", o, false)
	require.ErrorContains(t, err, "--user is for a job of your own")
}

func TestLaunchdRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(m *mac)
		o       JobOptions
		want    string
	}{
		"not root":                 {func(m *mac) { m.sys.UID = 501 }, JobOptions{}, "a job of the system needs root: use sudo, or --user"},
		"not root before macOS 26": {func(m *mac) { m.sys.UID, m.sys.Darwin = 501, 24 }, JobOptions{}, "a job of the system needs root: use sudo"},
		"no launchctl": {func(m *mac) {
			m.sys.Run = func(context.Context, string, ...string) ([]byte, error) { return nil, exec.ErrNotFound }
		}, JobOptions{}, "launchd cannot be asked: executable file not found in $PATH: to do without a service, run the daemon yourself"},
		"no program":                      {func(m *mac) { m.remove("/opt/socket_vmnet/bin/socket_vmnet2") }, JobOptions{}, "/opt/socket_vmnet/bin/socket_vmnet2 is not there: \"socket_vmnet2 install\""},
		"program that cannot run":         {func(m *mac) { m.chmod("/opt/socket_vmnet/bin/socket_vmnet2", 0o644) }, JobOptions{}, "is not a program"},
		"prefix that others can write to": {func(m *mac) { m.chmod("/opt/socket_vmnet", 0o777) }, JobOptions{}, "/opt/socket_vmnet can be written"},
		"prefix that is a link": {func(m *mac) {
			require.NoError(m.t, os.Symlink("socket_vmnet", m.sys.at("/opt/link")))
		}, JobOptions{Prefix: "/opt/link"}, "/opt/link is a symbolic link"},
		"Lima's job":      {func(m *mac) { m.foreign("io.github.lima-vm.socket_vmnet", "/var/run/socket_vmnet") }, JobOptions{}, `the job io.github.lima-vm.socket_vmnet serves /var/run/socket_vmnet: stop it first, with "sudo launchctl bootout system/io.github.lima-vm.socket_vmnet"`},
		"Homebrew's job":  {func(m *mac) { m.foreign("homebrew.mxcl.socket_vmnet", "/var/run/./socket_vmnet") }, JobOptions{}, "sudo /opt/homebrew/bin/brew services stop socket_vmnet"},
		"another program": {func(m *mac) { m.served["/var/run/socket_vmnet"] = true }, JobOptions{}, "something serves /var/run/socket_vmnet already"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMac(t)
			tt.prepare(m)
			before := filesBelow(t, m.sys.Root)
			_, err := m.service("install", tt.o, false)
			require.ErrorContains(t, err, tt.want)
			assert.Equal(t, before, filesBelow(t, m.sys.Root), "nothing was touched")
			assert.Empty(t, m.calls)
			out, err := m.service("install", tt.o, true)
			require.NoError(t, err, "a dry run goes on")
			assert.Contains(t, out, "WARN ")
			assert.Contains(t, out, tt.want)
			assert.Contains(t, out, "launchctl load")
		})
	}
}

func (m *mac) remove(path string) { require.NoError(m.t, os.RemoveAll(m.sys.at(path))) }

func (m *mac) chmod(path string, mode os.FileMode) {
	require.NoError(m.t, os.Chmod(m.sys.at(path), mode))
}

// foreign loads a job of the system that serves socket.
func (m *mac) foreign(label, socket string) {
	text := "<plist><dict><key>ProgramArguments</key><array><string>/x/socket_vmnet</string><string>" + socket + "</string></array></dict></plist>"
	require.NoError(m.t, os.WriteFile(m.sys.at("/Library/LaunchDaemons/"+label+".plist"), []byte(text), 0o644))
	m.loaded["system/"+label], m.jobs["system/"+label] = text, socket
}

// TestLaunchdFailures: a step that fails is told with its command, and the next call mends it.
func TestLaunchdFailures(t *testing.T) {
	m := newMac(t)
	m.fail = "load"
	_, err := m.service("install", JobOptions{}, false)
	require.ErrorContains(t, err, "launchctl load "+daemon1+`: "launchctl" failed with stderr: load failed: 5: Input/output error; /var/log/socket_vmnet2/stderr tells more`)
	m.status(exitStopped, "is stopped", JobOptions{})
	m.fail = ""
	m.do("is changed", "install", JobOptions{})
	assert.Equal(t, []string{"launchctl enable " + target, "launchctl load " + daemon1}, m.calls)

	m = newMac(t)
	m.remove("/Library/LaunchDaemons")
	_, err = m.service("install", JobOptions{}, false)
	require.ErrorContains(t, err, "write "+daemon1+": ")
	assert.Empty(t, m.calls, "nothing was stopped or started")

	m = newMac(t)
	m.sys.Reach, m.sys.Patience = func(string) error { return syscall.ECONNREFUSED }, 20*time.Millisecond
	_, err = m.service("install", JobOptions{}, false)
	require.ErrorContains(t, err, "it is started, but nothing serves /var/run/socket_vmnet yet; see /var/log/socket_vmnet2/stderr: waited 20ms")

	m = newMac(t)
	m.do("is installed", "install", JobOptions{})
	m.fail = "unload"
	_, err = m.service("uninstall", JobOptions{}, false)
	require.ErrorContains(t, err, "launchctl unload")
	assert.FileExists(t, m.sys.at(daemon1), "it is loaded still")
}

// TestForeignJobs that are no hindrance: other sockets, and jobs that are not loaded.
func TestForeignJobs(t *testing.T) {
	m := newMac(t)
	m.foreign("homebrew.mxcl.socket_vmnet", "/opt/homebrew/var/run/socket_vmnet")
	m.foreign("io.github.lima-vm.socket_vmnet", "/var/run/socket_vmnet")
	delete(m.loaded, "system/io.github.lima-vm.socket_vmnet")
	m.do("is installed", "install", JobOptions{})
}

// happened looks whether a change did what its dry run has shown, and nothing else: with the files below dir, which were before, and by
// commands. root is in front of paths.
func happened(t *testing.T, dry, root, dir string, before map[string]string, commands []string) {
	t.Helper()
	var ran []string
	steps := 0
	for line := range strings.Lines(dry) {
		switch word, rest, _ := strings.Cut(strings.TrimSpace(line), " "); word {
		case "run":
			ran = append(ran, strings.ReplaceAll(rest, "'", "")) // what was called has no quotation
		case "write", "remove":
			steps++
		case "|", "make":
		default:
			assert.Contains(t, line, "there is nothing to do", "a dry run prints what it would do")
		}
	}
	assert.Equal(t, ran, commands)
	after := filesBelow(t, dir)
	for path, text := range after {
		if before[path] == text {
			continue
		}
		steps--
		assert.Contains(t, dry, "write "+strings.TrimPrefix(path, root)+", mode 0644:\n| "+strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n| ")+"\n")
		fi, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o644), fi.Mode(), "launchd loads no job that a group can write to")
	}
	for path := range before {
		if _, stays := after[path]; !stays {
			steps--
			assert.Contains(t, dry, "remove "+strings.TrimPrefix(path, root)+"\n")
		}
	}
	assert.Zero(t, steps, "%s", dry)
}

// filesBelow is every file below dir, with what is in it.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	}))
	return files
}
