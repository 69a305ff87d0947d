// SPDX-License-Identifier: Apache-2.0

// Package service makes the daemon a job of the service manager: launchd on macOS, systemd on Linux. What it installs for the
// default prefix is, byte for byte, what lies in etc/launchd and etc/systemd.
//
// github.com/kardianos/service loads, starts and stops jobs. The rest is done here: the files, which it would write in another form and
// not change; the question what there is, since it asks launchd about the caller's own jobs only; and systemd's sockets, of which
// it knows nothing.
//
// Everything that is changed is a step of a plan first. A dry run prints the plan, a real one carries out the same.
package service

import (
	"context"
	"fmt"
	"io"
	"time"
)

// A system is where jobs are installed. Tests make their own.
type system struct {
	GOOS       string
	Root       string // in front of every path; empty: the real one
	Home       string // of the user
	RuntimeDir string // of the user, XDG_RUNTIME_DIR
	UID        int
	Darwin     int // major version of the kernel, 25 in macOS 26; 0: not known

	// Run runs a command. A command that ends with another code than 0 is no error.
	Run func(ctx context.Context, argv ...string) (result, error)
	// Control has the manager start, stop or restart a job, or on systemd uninstall it.
	Control func(j *job, verb string) error
	// Reach tells whether something accepts connections at a socket.
	Reach func(path string) error
	// Patience is how long a job may take to start or to end, Tick how often it is looked at.
	Patience, Tick time.Duration
}

// A result is how a command ended.
type result struct {
	Code   int
	Stdout string
	Stderr string
}

// The exit codes of status, as systemctl has them.
const (
	exitRunning      = 0
	exitFailed       = 1
	exitStopped      = 3
	exitNotInstalled = 4
)

// A service is one job on one system, and what is to be done with it.
type service struct {
	sys     *system
	job     *job
	manager manager
	out     io.Writer
	dry     bool
	warn    func(text string)
}

// manager is launchd or systemd.
type manager interface {
	// state asks what is there. It changes nothing.
	state(ctx context.Context) (state, error)
	install(s state, p *plan) error
	uninstall(s state, p *plan)
	start(s state, p *plan)
	stop(s state, p *plan)
	restart(s state, p *plan)
	// arguments are those in the file of the job that is installed, its program apart.
	arguments(s state) []string
	// logs tells where to look when the daemon does not start.
	logs() string
}

// state is what there is of a job.
type state struct {
	files   map[string]string // contents by path, of what is there
	loaded  bool              // the manager knows it
	enabled bool              // it is started at boot, or when the user logs in
	active  bool              // a process runs, or is being started
	pid     int
}

func (s state) installed() bool { return len(s.files) > 0 }

// Run are the settings of a call.
type Run struct {
	Out  io.Writer
	Dry  bool              // print what would be done
	Warn func(text string) // what a dry run would be refused for
}

// New is the service for o. An error is a bad command line, or a network that there is not on this system.
func New(sys *system, o Options, r Run) (*service, error) {
	job, err := sys.newJob(o)
	if err != nil {
		return nil, err
	}
	s := &service{sys: sys, job: job, out: r.Out, dry: r.Dry, warn: r.Warn}
	if sys.GOOS == "darwin" {
		s.manager = &launchd{sys: sys, job: job}
	} else {
		s.manager = &systemd{sys: sys, job: job}
	}
	return s, nil
}

// say prints a line about the job.
func (s *service) say(format string, a ...any) {
	_, _ = fmt.Fprintf(s.out, "%s %s\n", s.job.Name, fmt.Sprintf(format, a...))
}
