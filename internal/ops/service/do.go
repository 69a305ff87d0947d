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

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// Do installs, uninstalls, starts, stops or restarts the job. What is as it should be is left alone.
func (s *service) Do(ctx context.Context, verb string) error {
	before, err := s.ask(ctx, verb)
	if err != nil {
		return err
	}
	p := &plan{sys: s.sys}
	if verb != "install" {
		s.findSocket(before)
	}
	nothing, says := "", ""
	switch verb {
	case "install":
		err = s.manager.install(before, p)
		nothing, says = "is installed like this and runs", "is installed and started, on "+s.job.Socket
		if before.installed() {
			says = "was installed before: it is changed and has been started again, on " + s.job.Socket
		}
	case "uninstall":
		s.manager.uninstall(before, p)
		says = "is uninstalled. Kept are " + s.kept()
	case "start":
		if !before.active {
			s.manager.start(before, p)
		}
		nothing, says = "runs already", "is started, on "+s.job.Socket
	case "stop":
		s.manager.stop(before, p)
		nothing, says = "does not run", "is stopped until the next boot or login, or \"service start\"; \"service uninstall\" removes it"
	case "restart":
		s.manager.restart(before, p)
		says = "is started again, on " + s.job.Socket + "; \"socket_vmnet2 upgrade\" does that without disconnecting a client"
	}
	if err != nil {
		return err
	}
	if len(p.steps) == 0 {
		if verb != "install" && !before.installed() {
			nothing = "is not installed"
		}
		s.say("%s: there is nothing to do", nothing)
		return nil
	}
	if slices.Contains([]string{"install", "start", "restart"}, verb) && s.job.Socket != "" && s.sys.GOOS == "darwin" { // systemctl waits by itself
		p.wait(fmt.Sprintf("it is started, but nothing serves %s yet; see %s", s.job.Socket, s.manager.logs()), func(context.Context) bool {
			return s.sys.Reach(s.job.Socket) == nil
		})
	}
	if err := p.carryOut(ctx, s.out, s.dry); err != nil || s.dry {
		return err
	}
	s.say("%s", says)
	return nil
}

// ask asks for the state, and refuses what cannot be done on this system. A dry run only says so, and goes on without a manager as if
// nothing were installed.
func (s *service) ask(ctx context.Context, verb string) (state, error) {
	before, err := s.manager.state(ctx)
	if err != nil {
		err = fmt.Errorf("%w: to do without a service, run the daemon yourself, as in \"socket_vmnet2 --vmnet-gateway=192.168.105.1 SOCKET\"", err)
	}
	faults := []error{err, s.userFault()}
	switch {
	case verb == "install":
		faults = append(faults, s.programFault(), s.groupFault(), s.socketFault(ctx, before))
	case (verb == "start" || verb == "restart") && err == nil && !before.installed():
		faults = append(faults, fmt.Errorf("%s is not installed: \"socket_vmnet2 service install\" with the same options does that", s.job.Name))
	}
	if !s.dry {
		return before, errors.Join(faults...)
	}
	for _, err := range faults {
		if err != nil {
			s.warn(err.Error())
		}
	}
	return before, nil
}

// kept tells what uninstalling leaves.
func (s *service) kept() string {
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

// findSocket sets the socket to that of the job as it is installed.
func (s *service) findSocket(before state) {
	if args := s.manager.arguments(before); len(args) > 0 {
		s.job.Socket = args[len(args)-1]
	}
}

// Status prints what there is of the job and returns the exit code, as systemctl has it.
func (s *service) Status(ctx context.Context) (int, error) {
	before, err := s.manager.state(ctx)
	code := exitStopped
	switch {
	case err != nil:
		return exitFailed, err
	case before.active:
		s.say("is running")
		code = exitRunning
	case before.loaded && s.sys.GOOS == "darwin":
		s.say("has no process: it ends as soon as launchd starts it; the log tells why")
	case before.installed() || before.loaded:
		s.say("is stopped")
	default:
		s.say("is not installed")
		return exitNotInstalled, nil
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
		line("options", printable.Command(s.manager.arguments(before)...))
	}
	files := strings.Join(slices.Sorted(maps.Keys(before.files)), " ")
	if files == "" {
		files = "none: it is gone with the next boot"
	}
	line("files", files)
	line("log", s.manager.logs())
	return code, nil
}
