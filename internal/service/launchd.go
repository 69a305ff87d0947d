// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// launchd is the manager of macOS.
type launchd struct {
	sys *System
	job *Job
}

// The codes of launchctl that are no failures here.
const (
	inProgress = 36 // EINPROGRESS: the job is about to end
	noService  = 113
	noProcess  = 3 // ESRCH: there is no such job
)

func (l *launchd) path() string { return l.dir() + "/" + l.job.Name + ".plist" }

func (l *launchd) dir() string {
	if l.job.User {
		return filepath.Join(l.sys.Home, "Library/LaunchAgents")
	}
	return "/Library/LaunchDaemons"
}

// domain is where the job lives, which launchctl is always told.
func (l *launchd) domain() string {
	if l.job.User {
		return "gui/" + strconv.Itoa(l.sys.UID)
	}
	return "system"
}

func (l *launchd) target() string { return l.domain() + "/" + l.job.Name }

func (l *launchd) logs() string { return filepath.Join(l.job.LogDir, l.job.LogName+"stderr") }

// printed are the lines of "launchctl print" that count. Nested blocks are indented further.
var (
	printedPID   = regexp.MustCompile(`(?m)^\tpid = ([0-9]+)$`)
	printedState = regexp.MustCompile(`(?m)^\tstate = (.*)$`)
)

func (l *launchd) state(ctx context.Context) (state, error) {
	files, err := l.sys.read(l.path())
	if err != nil {
		return state{}, err
	}
	s := state{files: files}
	r, err := l.sys.Run(ctx, "launchctl", "print", l.target())
	if err != nil {
		return s, fmt.Errorf("ask launchd: %w", err)
	}
	if r.Code != 0 {
		return s, nil
	}
	s.loaded = true
	if m := printedPID.FindStringSubmatch(r.Stdout); m != nil {
		s.pid, _ = strconv.Atoi(m[1])
	}
	if m := printedState.FindStringSubmatch(r.Stdout); m != nil {
		s.active = m[1] == "running"
	}
	s.active = s.active || s.pid != 0
	s.enabled = true
	return s, nil
}

func (l *launchd) install(s state, p *plan) error {
	text, err := l.job.text("launchd.plist.tmpl")
	if err != nil {
		return err
	}
	f := file{l.path(), text}
	if s.files[f.path] == text && s.loaded {
		if !s.active {
			l.start(s, p)
		}
		return nil
	}
	if s.loaded {
		l.bootout(p)
	}
	again := s.loaded
	// launchd makes files for the output, not their directory.
	p.directory(l.job.LogDir, 0o755)
	if l.job.User {
		p.directory(l.dir(), 0o755)
		p.directory(filepath.Dir(l.job.Socket), 0o700)
	}
	if s.files[f.path] != text {
		if s.installed() {
			p.remove(f.path) // the library writes no file that is there
		}
		p.library(&f, nil, func() error {
			if err := l.sys.Library.Install(l.job, text); err != nil {
				return fmt.Errorf("write %s: %w", f.path, err)
			}
			return l.sys.installed(f)
		})
	}
	l.bootstrap(again, p)
	return nil
}

// bootstrap loads the job, which starts it. A job that was disabled cannot be loaded; nor, for a moment, one that was just booted
// out, even if launchd knows it no more.
func (l *launchd) bootstrap(again bool, p *plan) {
	p.command("launchctl", "enable", l.target())
	p.commandTried(again, "launchctl", "bootstrap", l.domain(), l.path())
}

// bootout ends the job and has launchd forget it, and waits until that is so: it cannot be loaded before.
func (l *launchd) bootout(p *plan) {
	p.commandUnless(func(r Result) bool {
		return r.Code == inProgress || r.Code == noProcess || r.Code == noService || strings.Contains(r.Stderr, "Operation now in progress")
	}, "launchctl", "bootout", l.target())
	p.wait(l.job.Name+" has not ended", func(ctx context.Context) bool {
		s, err := l.state(ctx)
		return err == nil && !s.loaded
	})
}

func (l *launchd) uninstall(s state, p *plan) {
	if s.loaded {
		l.bootout(p)
	}
	if s.installed() {
		p.remove(l.path())
	}
}

func (l *launchd) start(s state, p *plan) {
	if s.loaded {
		p.command("launchctl", "kickstart", l.target())
		return
	}
	l.bootstrap(false, p)
}

// stop has launchd forget the job: it would start it again at once otherwise. It is loaded again at boot.
func (l *launchd) stop(s state, p *plan) {
	if s.loaded {
		l.bootout(p)
	}
}

func (l *launchd) restart(s state, p *plan) {
	if s.loaded {
		p.command("launchctl", "kickstart", "-k", l.target())
		return
	}
	l.bootstrap(false, p)
}
