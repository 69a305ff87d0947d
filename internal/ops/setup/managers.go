// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// manager is launchd or systemd, for one job.
type manager interface {
	// paths are the files that the job may have.
	paths() []string
	// ask fills in what the manager knows of the job. It changes nothing.
	ask(s *state) error
	// prepare makes what the job needs besides its files.
	prepare()
	// forget is for files that are going to be removed, reload for those that are there now.
	forget(files []string)
	reload(files []string)
	start(s state)
	stop(s state)
	restart(s state)
	// logs tells where to look when the daemon does not start.
	logs() string
}

// launchd is the manager of macOS.
type launchd struct{ *job }

func (l launchd) dir() string {
	if l.User {
		return filepath.Join(l.Home, "Library/LaunchAgents")
	}
	return "/Library/LaunchDaemons"
}

func (l launchd) path() string  { return l.dir() + "/" + l.Name + ".plist" }
func (l launchd) logs() string  { return filepath.Join(l.LogDir, l.LogName+"stderr") }
func (launchd) forget([]string) {}
func (launchd) reload([]string) {}

// paths are the job and, for one of the system, what has newsyslog rotate its log.
func (l launchd) paths() []string {
	if l.User {
		return []string{l.path()}
	}
	return []string{l.path(), newsyslogDir + "/" + l.Name + ".conf"}
}

// newsyslogDir is where macOS' newsyslog looks for files such as the template conf.tmpl: newsyslog.conf(5).
const newsyslogDir = "/etc/newsyslog.d"

// target is the job and the domain that it lives in.
func (l launchd) target() string {
	if l.User {
		return "gui/" + strconv.Itoa(l.UID) + "/" + l.Name
	}
	return "system/" + l.Name
}

// printed is the line of "launchctl print" that tells the process. Nested blocks are indented further.
var printed = regexp.MustCompile(`(?m)^\tpid = ([0-9]+)$`)

// ask uses "print", which unlike "list" tells all users about the jobs of the system.
func (l launchd) ask(s *state) error {
	out, err := l.Run(l.ctx, "launchctl", "print", l.target())
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return fmt.Errorf("launchd cannot be asked: %w", err)
	}
	s.loaded, s.enabled = err == nil, err == nil
	if m := printed.FindSubmatch(out); m != nil && s.loaded {
		s.pid, _ = strconv.Atoi(string(m[1]))
	}
	s.active = s.pid != 0
	return nil
}

// prepare makes directories: launchd makes files for the output, not their directory.
func (l launchd) prepare() {
	l.directory(l.LogDir, 0o755)
	if l.User {
		l.directory(l.dir(), 0o755)
		l.directory(filepath.Dir(l.Socket), 0o700)
	} else {
		l.directory(newsyslogDir, 0o755)
	}
}

// start loads the job, which starts it. A job that was disabled cannot be loaded.
func (l launchd) start(s state) {
	if s.loaded {
		l.restart(s)
		return
	}
	l.run("launchctl", "enable", l.target())
	l.control("start", "launchctl", "load", l.path())
}

// stop has launchd forget the job: it would start it again at once otherwise. It is loaded again at boot. The library unloads a job by its
// file; the end of the process takes a while, and until then the job cannot be loaded again.
func (l launchd) stop(s state) {
	switch {
	case !s.loaded:
		return
	case s.installed():
		l.control("stop", "launchctl", "unload", l.path())
	default:
		l.run("launchctl", "bootout", l.target())
	}
	l.again = true
	l.wait(l.Name+" has not ended", func() bool {
		var s state
		return l.ask(&s) == nil && !s.loaded
	})
}

func (l launchd) restart(s state) {
	l.stop(s)
	l.start(state{})
}

// systemd is the manager of Linux.
type systemd struct{ *job }

func (d systemd) dir() string {
	if d.User {
		return filepath.Join(d.Home, ".config/systemd/user")
	}
	return "/etc/systemd/system"
}

func (d systemd) service() string    { return d.Name + ".service" }
func (d systemd) socket() string     { return d.Name + ".socket" }
func (d systemd) socketPath() string { return d.dir() + "/" + d.socket() }
func (d systemd) paths() []string    { return []string{d.dir() + "/" + d.service(), d.socketPath()} }

func (d systemd) logs() string {
	if d.User {
		return "journalctl --user -u " + d.service()
	}
	return "journalctl -u " + d.service()
}

// systemctl is a command line of ours, with --user where the library has it.
func (d systemd) systemctl(verb string, units ...string) []string {
	argv := []string{"systemctl", verb}
	if d.User {
		argv = append(argv, "--user")
	}
	return append(argv, units...)
}

func (d systemd) ask(s *state) error {
	argv := append(d.systemctl("show"), "--property=ActiveState,MainPID,UnitFileState,LoadState", d.service())
	out, err := d.Run(d.ctx, argv[0], argv[1:]...)
	if err != nil {
		return fmt.Errorf("systemd cannot be asked: %w", err)
	}
	p := find.Properties(string(out))
	s.active = p["ActiveState"] == "active" || p["ActiveState"] == "activating" || p["ActiveState"] == "reloading"
	s.failed = p["ActiveState"] == "failed"
	s.pid, _ = strconv.Atoi(p["MainPID"])
	s.enabled = p["UnitFileState"] == "enabled" && d.userThere()
	s.loaded = p["LoadState"] == "loaded"
	return nil
}

// userThere tells whether the user and the group exist that the service runs as.
func (d systemd) userThere() bool {
	if d.User {
		return true
	}
	_, noGroup := user.LookupGroup(d.Group)
	_, noUser := user.Lookup(linuxUser)
	return noGroup == nil && noUser == nil
}

// prepare makes the user. It stays when the service goes: its number could be given to another, and with it what the networks remember.
func (d systemd) prepare() {
	if !d.userThere() {
		d.run("systemd-sysusers", "--inline", "u "+linuxUser+` - "Networks for virtual machines"`, "g "+linuxGroup+" -")
	}
	if d.User {
		d.directory(d.dir(), 0o755)
	}
}

func (d systemd) forget(files []string) { d.run(d.systemctl("disable", units(files)...)...) }

func (d systemd) reload(files []string) {
	d.run(d.systemctl("daemon-reload")...)
	if len(files) > 0 {
		d.run(d.systemctl("enable", units(files)...)...)
	}
}

// units are the names of files as systemd knows them.
func units(files []string) (names []string) {
	for _, f := range files {
		names = append(names, filepath.Base(f))
	}
	return names
}

// start starts the socket in front of the service: it cannot be made any more once the daemon has made its own.
func (d systemd) start(s state) {
	if s.failed { // it is not started too often, whoever asks
		d.run(d.systemctl("reset-failed", d.service())...)
	}
	if s.files[d.socketPath()] != "" {
		d.run(d.systemctl("start", d.socket())...)
	}
	d.control("start", d.systemctl("start", d.service())...)
}

// stop stops the socket first: the next client would start the service again.
func (d systemd) stop(s state) {
	if s.files[d.socketPath()] != "" {
		d.run(d.systemctl("stop", d.socket())...)
	}
	if s.active {
		d.control("stop", d.systemctl("stop", d.service())...)
	}
}

// restart leaves an activated socket as it is: clients wait in it.
func (d systemd) restart(s state) {
	if !s.active {
		d.start(s)
		return
	}
	d.control("restart", d.systemctl("restart", d.service())...)
}

// control has the library do something; command is what it runs then.
func (j *job) control(verb string, command ...string) {
	line := printable.Command(command...)
	again := j.again
	j.step(line, "run "+line, func() error {
		err := j.Control(j, verb)
		if err != nil && again { // launchd may refuse a job for a moment that was just unloaded, even if it knows it no more
			_ = j.until(func() bool { err = j.Control(j, verb); return err == nil })
		}
		if err != nil {
			return fmt.Errorf("%w; %s tells more", err, j.manager.logs())
		}
		return nil
	})
}

// run runs a command, which has to succeed.
func (j *job) run(command ...string) {
	line := printable.Command(command...)
	j.step(line, "run "+line, func() error {
		out, err := j.Run(j.ctx, command[0], command[1:]...)
		if err != nil {
			return fmt.Errorf("%w %s", err, strings.TrimSpace(string(out)))
		}
		return nil
	})
}
