// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// begin is what each change begins with: it asks for the state, and refuses what cannot be done on this system. A dry run only says
// so, and goes on without a manager as if nothing were installed.
func (s *Service) begin(ctx context.Context, more ...func(before state) error) (state, *plan, error) {
	before, err := s.manager.state(ctx)
	if err != nil {
		err = fmt.Errorf("%w: to do without a service, run the daemon yourself, as in \"socket_vmnet2 --vmnet-gateway=192.168.105.1 SOCKET\"", err)
	}
	faults := []error{err, s.userFault()}
	for _, fault := range more {
		faults = append(faults, fault(before))
	}
	faults = slices.DeleteFunc(faults, func(err error) bool { return err == nil })
	if !s.dry {
		return before, &plan{sys: s.sys}, errors.Join(faults...)
	}
	for _, err := range faults {
		s.warn(err.Error())
	}
	return before, &plan{sys: s.sys}, nil
}

// Install installs the job and starts it, or changes the one that is there and starts it again.
func (s *Service) Install(ctx context.Context) error {
	before, p, err := s.begin(ctx,
		func(state) error { return s.programFault() },
		func(state) error { return s.groupFault() },
		func(before state) error { return s.socketFault(ctx, before) })
	if err != nil {
		return err
	}
	if err := s.manager.install(before, p); err != nil {
		return err
	}
	if len(p.steps) == 0 {
		s.say("is installed like this and runs: there is nothing to do")
		return nil
	}
	if before.installed() {
		return s.serving(ctx, p, "was installed before: it is changed and has been started again, on %s")
	}
	return s.serving(ctx, p, "is installed and started, on %s")
}

// Uninstall stops the job and removes it.
func (s *Service) Uninstall(ctx context.Context) error {
	before, p, err := s.begin(ctx)
	if err != nil {
		return err
	}
	if !before.installed() && !before.loaded {
		s.say("is not installed: there is nothing to do")
		return nil
	}
	s.manager.uninstall(before, p)
	if err := p.carryOut(ctx, s.out, s.dry); err != nil || s.dry {
		return err
	}
	s.say("is uninstalled. Kept are %s", s.kept())
	return nil
}

// kept tells what uninstalling leaves.
func (s *Service) kept() string {
	logs, network := "the journal", linuxState
	if s.sys.GOOS == "darwin" {
		logs, network = "the logs in "+s.job.LogDir, "/var/db/socket_vmnet2"
	} else if !s.job.User {
		logs += ", the user " + linuxUser + ","
	}
	if s.job.User {
		network = filepath.Join(s.sys.Home, map[bool]string{true: "Library/Application Support", false: ".local/state"}[s.sys.GOOS == "darwin"], "socket_vmnet2")
	}
	return logs + " and what the network remembers, in " + network
}

// Start starts the job.
func (s *Service) Start(ctx context.Context) error {
	before, p, err := s.begin(ctx, s.notInstalled)
	if err != nil {
		return err
	}
	if before.active {
		s.say("runs already: there is nothing to do")
		return nil
	}
	s.findSocket(before)
	s.manager.start(before, p)
	return s.serving(ctx, p, "is started, on %s")
}

// Restart starts the job again, or starts it if it does not run.
func (s *Service) Restart(ctx context.Context) error {
	before, p, err := s.begin(ctx, s.notInstalled)
	if err != nil {
		return err
	}
	s.findSocket(before)
	s.manager.restart(before, p)
	return s.serving(ctx, p, "is started again, on %s; \"socket_vmnet2 upgrade\" does that without disconnecting anybody")
}

// Stop stops the job. It stays installed.
func (s *Service) Stop(ctx context.Context) error {
	before, p, err := s.begin(ctx)
	if err != nil {
		return err
	}
	s.manager.stop(before, p)
	switch {
	case len(p.steps) == 0 && !before.installed():
		s.say("is not installed: there is nothing to do")
		return nil
	case len(p.steps) == 0:
		s.say("does not run: there is nothing to do")
		return nil
	}
	if err := p.carryOut(ctx, s.out, s.dry); err != nil || s.dry {
		return err
	}
	s.say("is stopped until the next boot or login, or \"service start\"; \"service uninstall\" removes it")
	return nil
}

func (s *Service) notInstalled(before state) error {
	if before.installed() {
		return nil
	}
	return fmt.Errorf("%s is not installed: \"socket_vmnet2 service install\" with the same options does that", s.job.Name)
}

// findSocket sets the socket to that of the job as it is installed.
func (s *Service) findSocket(before state) {
	if args := s.manager.arguments(before); len(args) > 0 {
		s.job.Socket = args[len(args)-1]
	}
}

// serving carries p out, waits until the socket of the job is served, and says so. systemctl waits by itself.
func (s *Service) serving(ctx context.Context, p *plan, says string) error {
	if s.job.Socket != "" && s.sys.GOOS == "darwin" {
		p.wait(fmt.Sprintf("it is started, but nothing serves %s yet; see %s", s.job.Socket, s.manager.logs()), func(context.Context) bool {
			return s.sys.Reach(s.job.Socket) == nil
		})
	}
	if err := p.carryOut(ctx, s.out, s.dry); err != nil || s.dry {
		return err
	}
	s.say(says, s.job.Socket)
	return nil
}

// Status prints what there is of the job and returns the exit code, as systemctl has it.
func (s *Service) Status(ctx context.Context) (int, error) {
	before, err := s.manager.state(ctx)
	code := ExitStopped
	switch {
	case err != nil:
		return ExitFailed, err
	case before.active:
		s.say("is running")
		code = ExitRunning
	case before.loaded && s.sys.GOOS == "darwin":
		s.say("has no process: it ends as soon as launchd starts it; the log tells why")
	case before.installed() || before.loaded:
		s.say("is stopped")
	default:
		s.say("is not installed")
		return ExitNotInstalled, nil
	}
	s.findSocket(before)
	line := func(what, text string) { _, _ = fmt.Fprintf(s.out, "  %-8s %s\n", what, text) }
	if before.pid != 0 {
		line("process", fmt.Sprint(before.pid))
	}
	if s.job.Socket != "" {
		answer := "accepts connections"
		if err := s.sys.Reach(s.job.Socket); err != nil {
			answer = "does not: " + err.Error()
		}
		line("socket", s.job.Socket+" "+answer)
		line("options", shellLine(s.manager.arguments(before)))
	}
	files := strings.Join(slices.Sorted(maps.Keys(before.files)), " ")
	if files == "" {
		files = "none: it is gone with the next boot"
	}
	line("files", files)
	line("log", s.manager.logs())
	return code, nil
}
