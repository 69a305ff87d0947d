// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Status prints what there is of the job and returns the exit code, as systemctl has it.
func (s *Service) Status(ctx context.Context) (int, error) {
	if err := s.managerFault(); err != nil {
		return ExitFailed, err
	}
	before, err := s.manager.state(ctx)
	if err != nil {
		return ExitFailed, err
	}
	code := ExitNotInstalled
	switch {
	case before.active:
		s.say("is running")
		code = ExitRunning
	case before.loaded && s.sys.GOOS == "darwin":
		s.say("has no process: it ends as soon as launchd starts it; the log tells why")
		code = ExitStopped
	case before.installed() || before.loaded:
		s.say("is stopped")
		code = ExitStopped
	default:
		s.say("is not installed")
		return code, nil
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
	}
	if args := s.arguments(before); args != nil {
		line("options", shellLine(args))
	}
	if len(before.files) > 0 {
		line("files", strings.Join(slices.Sorted(maps.Keys(before.files)), " "))
	} else {
		line("files", "none: it is gone with the next boot")
	}
	line("log", s.manager.logs())
	return code, nil
}
