// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// launchd is the manager of macOS.
type launchd struct {
	sys *system
	job *job
}

func (l *launchd) path() string { return l.dir() + "/" + l.job.Name + ".plist" }

func (l *launchd) dir() string {
	if l.job.User {
		return filepath.Join(l.sys.Home, "Library/LaunchAgents")
	}
	return "/Library/LaunchDaemons"
}

// target is the job and the domain that it lives in.
func (l *launchd) target() string {
	if l.job.User {
		return "gui/" + strconv.Itoa(l.sys.UID) + "/" + l.job.Name
	}
	return "system/" + l.job.Name
}

func (l *launchd) logs() string { return filepath.Join(l.job.LogDir, l.job.LogName+"stderr") }

func (l *launchd) arguments(s state) []string { return launchdArguments(s.files[l.path()]) }

// printed is the line of "launchctl print" that tells the process. Nested blocks are indented further.
var printed = regexp.MustCompile(`(?m)^\tpid = ([0-9]+)$`)

// state asks launchd by "print", which unlike "list" tells everybody about the jobs of the system.
func (l *launchd) state(ctx context.Context) (state, error) {
	files, err := l.sys.read(l.path())
	if err != nil {
		return state{}, err
	}
	s := state{files: files}
	r, err := l.sys.Run(ctx, "launchctl", "print", l.target())
	if err != nil {
		return s, fmt.Errorf("launchd cannot be asked: %w", err)
	}
	if r.Code == 0 {
		s.loaded, s.enabled = true, true
		if m := printed.FindStringSubmatch(r.Stdout); m != nil {
			s.pid, _ = strconv.Atoi(m[1])
		}
	}
	s.active = s.pid != 0
	return s, nil
}

func (l *launchd) install(s state, p *plan) error {
	text, err := l.job.text("launchd.plist.tmpl")
	if err != nil {
		return err
	}
	if s.files[l.path()] == text && s.loaded {
		if !s.active {
			l.restart(s, p)
		}
		return nil
	}
	// launchd makes files for the output, not their directory.
	p.directory(l.job.LogDir, 0o755)
	if l.job.User {
		p.directory(l.dir(), 0o755)
		p.directory(filepath.Dir(l.job.Socket), 0o700)
	}
	if s.files[l.path()] != text {
		p.write(l.path(), text)
	}
	l.restart(s, p)
	return nil
}

func (l *launchd) uninstall(s state, p *plan) {
	l.stop(s, p)
	if s.installed() {
		p.remove(l.path())
	}
}

// start loads the job, which starts it. A job that was disabled cannot be loaded.
func (l *launchd) start(s state, p *plan) {
	if s.loaded {
		l.restart(s, p)
		return
	}
	p.run("launchctl", "enable", l.target())
	p.control(l.job, "start", l.logs(), "run "+printable.Command("launchctl", "load", l.path()))
}

// stop has launchd forget the job: it would start it again at once otherwise. It is loaded again at boot. The library unloads a job by its
// file; the end of the process takes a while, and until then the job cannot be loaded again.
func (l *launchd) stop(s state, p *plan) {
	switch {
	case !s.loaded:
		return
	case s.installed():
		p.control(l.job, "stop", l.logs(), "run "+printable.Command("launchctl", "unload", l.path()))
	default:
		p.run("launchctl", "bootout", l.target())
	}
	p.wait(l.job.Name+" has not ended", func(ctx context.Context) bool {
		s, err := l.state(ctx)
		return err == nil && !s.loaded
	})
}

func (l *launchd) restart(s state, p *plan) {
	l.stop(s, p)
	p.again, s.loaded = s.loaded, false
	l.start(s, p)
}
