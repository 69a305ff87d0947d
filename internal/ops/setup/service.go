// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// The exit codes of status, as systemctl has them.
const (
	exitRunning      = 0
	exitFailed       = 1
	exitStopped      = 3
	exitNotInstalled = 4
)

// say prints a line about the job.
func (j *job) say(format string, a ...any) {
	_, _ = fmt.Fprintf(j.Out, "%s %s\n", j.Name, fmt.Sprintf(format, a...))
}

// Do installs, uninstalls, starts, stops or restarts the job. What is as it should be is left alone.
func (j *job) Do(ctx context.Context, verb string) error {
	j.ctx = ctx
	before, err := j.check(verb)
	if err != nil {
		return err
	}
	if verb != "install" {
		j.findSocket(before)
	}
	nothing, says := "", ""
	switch verb {
	case "install":
		nothing, says = "is installed like this and runs", "is installed and started, on "+j.link()
		if before.installed() {
			says = "was installed before: it is changed and has been started again, on " + j.link()
		}
		j.install(before)
	case "uninstall":
		says = "is uninstalled. Kept are " + j.kept()
		j.exchange(before, nil)
	case "start":
		nothing, says = "runs already", "is started, on "+j.link()
		if !before.active {
			j.manager.start(before)
		}
	case "stop":
		nothing, says = "does not run", "is stopped until the next boot or login, or \"service start\"; \"service uninstall\" removes it"
		j.manager.stop(before)
	case "restart":
		says = "is started again, on " + j.link() + "; \"socket_vmnet2 upgrade\" does that without disconnecting a client"
		j.manager.restart(before)
	}
	if verb != "install" && !before.installed() {
		nothing = "is not installed"
	}
	switch {
	case !j.changed:
		j.say("%s: there is nothing to do", nothing)
		return nil
	case slices.Contains([]string{"install", "start", "restart"}, verb) && j.Socket != "" && j.GOOS == "darwin": // systemctl waits by itself
		j.wait(fmt.Sprintf("it is started, but nothing serves %s yet; see %s", j.Socket, j.manager.logs()), func() bool { return j.Reach(j.Socket) == nil })
	}
	if j.err == nil && !j.Dry {
		j.say("%s", says)
	}
	return j.err
}

// install has the job's files be as they should, and the job run.
func (j *job) install(before state) {
	want := map[string]string{}
	for _, path := range j.manager.paths() {
		if strings.HasSuffix(path, ".socket") && !j.Activated {
			continue
		}
		want[path] = j.text(path)
	}
	switch {
	case !before.enabled || !maps.Equal(before.files, want):
		j.manager.prepare()
		j.exchange(before, want)
		j.manager.start(state{files: want, failed: before.failed})
	case !before.active:
		j.manager.start(before)
	}
}

// exchange stops the job, and puts other files in the place of its own.
func (j *job) exchange(before state, want map[string]string) {
	stay := slices.Sorted(maps.Keys(want))
	for _, path := range stay {
		if before.files[path] != want[path] {
			j.write(path, want[path])
		}
	}
	j.manager.stop(before)
	if before.fixed {
		before.files = nil
	}
	gone := slices.DeleteFunc(slices.Sorted(maps.Keys(before.files)), func(path string) bool { return want[path] != "" })
	if len(gone) > 0 {
		j.manager.forget(gone)
	}
	for _, path := range gone {
		j.step("remove "+path, "remove "+path, func() error { return removeFile(j.at(path)) })
	}
	if len(gone)+len(stay) > 0 {
		j.manager.reload(stay)
	}
}

// check asks for the state, and refuses what cannot be done on this system. A dry run only says so, and goes on without a manager as if
// nothing were installed.
func (j *job) check(verb string) (state, error) {
	before, err := j.state()
	if err != nil {
		err = fmt.Errorf("%w: to do without a service, run the daemon yourself, as in \"socket_vmnet2 --vmnet-gateway=192.168.105.1 SOCKET\"", err)
	}
	faults := []error{err, j.userFault()}
	switch {
	case verb == "install":
		faults = append(faults, j.programFault(), j.groupFault(), j.socketFault(before))
	case verb == "uninstall" && before.fixed:
		faults = append(faults, fmt.Errorf("%s came with a package: \"systemctl disable --now %[1]s\" stops it for good, and removing the package removes it", j.Name))
	case (verb == "start" || verb == "restart") && err == nil && !before.installed():
		faults = append(faults, fmt.Errorf("%s is not installed: \"socket_vmnet2 service install\" with the same options does that", j.Name))
	}
	if !j.Dry {
		return before, errors.Join(faults...)
	}
	for _, err := range faults {
		if err != nil {
			j.Warn(err.Error())
		}
	}
	return before, nil
}

// userFault tells when the user cannot have a job of that kind.
func (j *job) userFault() error {
	old := j.GOOS == "darwin" && j.Darwin < unprivileged
	switch mine := j.User; {
	case !mine && j.UID != 0 && old:
		return errors.New("a job of the system needs root: use sudo")
	case !mine && j.UID != 0:
		return errors.New("a job of the system needs root: use sudo, or --user for a job of your own")
	case mine && j.UID == 0:
		return errors.New("--user is for a job of your own, without root: leave sudo out, or --user")
	case mine && old:
		return errors.New("--user needs macOS 26: before that, vmnet needs root; install the job of the system, with sudo and without --user")
	case mine && (j.Home == "" || j.GOOS != "darwin" && j.RuntimeDir == ""):
		return errors.New("HOME or XDG_RUNTIME_DIR is not set: log in as the user, a su or sudo to it is not enough")
	}
	return nil
}

// programFault tells what is wrong with the program, or with its path: what the system starts must be root's to change alone.
func (j *job) programFault() error {
	fi, err := os.Stat(j.at(j.Program))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s is not there: \"socket_vmnet2 install\" puts it there, or --prefix says where it is", j.Program)
	case err != nil:
		return fmt.Errorf("the program of the job: %w", err)
	case !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not a program that can be run", j.Program)
	case j.User:
		return nil
	}
	if err := hostfs.Check(j.Program, hostfs.Options{Root: j.Root, AllowSpace: true}); err != nil {
		return fmt.Errorf("the system would run what others than root can change: %w", err)
	}
	return nil
}

// groupFault tells when systemd could not start the service for want of its group. The default one is made if need be.
func (j *job) groupFault() error {
	if j.Group == "" || j.Group == linuxGroup || j.User {
		return nil
	}
	if _, err := user.LookupGroup(j.Group); err != nil {
		return fmt.Errorf("there is no group %s for the socket; make it with \"groupadd --system %[1]s\", or choose another with --socket-group=GROUP behind --", j.Group)
	}
	return nil
}

// socketFault finds another job, or any other program, at the socket. before is what there is of this job.
func (j *job) socketFault(before state) error {
	if j.GOOS == "darwin" {
		for _, other := range find.LookAtJobs(j.ctx, j.System).Jobs {
			if find.SamePath(filepath.Clean(other.Socket), filepath.Clean(j.Socket)) && other.State != find.NotLoaded && (other.Label != j.Name || other.User() != j.User) {
				line, _ := other.Stop()
				return fmt.Errorf("the job %s serves %s: stop it first, with %q", other.Label, j.Socket, line)
			}
		}
	}
	if before.installed() || before.loaded || j.Reach(j.Socket) != nil {
		return nil // nothing serves it but this very job
	}
	return fmt.Errorf("something serves %s already: stop it first, or choose another SOCKET behind --; \"sudo lsof %[1]s\" tells what it is", j.Socket)
}

// kept tells what uninstalling leaves.
func (j *job) kept() string {
	logs, network := "the journal", linuxState
	if j.GOOS == "darwin" {
		logs, network = "the logs in "+j.LogDir, "/var/db/socket_vmnet2"
	} else if !j.User {
		logs += ", the user " + linuxUser + ","
	}
	if j.User {
		network = filepath.Join(j.Home, map[bool]string{true: "Library/Application Support", false: ".local/state"}[j.GOOS == "darwin"], "socket_vmnet2")
	}
	return logs + " and what the network remembers, in " + network
}

// installedArguments are those in the file of the job that is installed, its program apart.
func (j *job) installedArguments(s state) []string {
	var argv []string
	for path, text := range s.files {
		if ext := filepath.Ext(path); ext == ".plist" || ext == ".service" {
			argv = find.Command(path, text, j.userRuntime())
		}
	}
	return argv[min(1, len(argv)):]
}

// findSocket sets the socket to that of the job as it is installed.
func (j *job) findSocket(before state) {
	if args := j.installedArguments(before); len(args) > 0 {
		j.Socket = args[len(args)-1]
	}
}

// Status prints what there is of the job and returns the exit code, as systemctl has it.
func (j *job) Status(ctx context.Context) (int, error) {
	j.ctx = ctx
	before, err := j.state()
	code := exitStopped
	switch {
	case err != nil:
		return exitFailed, err
	case before.active:
		j.say("is running")
		code = exitRunning
	case before.loaded && j.GOOS == "darwin":
		j.say("has no process: it ends as soon as launchd starts it; the log tells why")
	case before.installed() || before.loaded:
		j.say("is stopped")
	default:
		j.say("is not installed")
		return exitNotInstalled, nil
	}
	j.findSocket(before)
	line := func(what, text string) { _, _ = fmt.Fprintf(j.Out, "  %-8s %s\n", what, text) }
	if before.pid != 0 {
		line("process", fmt.Sprint(before.pid))
	}
	if j.Socket != "" {
		answer := "accepts connections"
		if err := j.Reach(j.Socket); err != nil {
			answer = "does not: " + err.Error()
		}
		line("socket", j.link()+" "+answer)
		line("options", printable.Command(j.installedArguments(before)...))
	}
	files := strings.Join(slices.Sorted(maps.Keys(before.files)), " ")
	if files == "" {
		files = "none: it is gone with the next boot"
	}
	line("files", files)
	line("log", j.manager.logs())
	return code, nil
}
