// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"log/slog"
	"slices"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// commands are what the first argument of socket_vmnet2 can ask for in place of the daemon. compat.Usage says how texts are made
// of them; TestManual makes the manual pages and the completions.
func commands(env compat.IO) []*cli.Command {
	all := []*cli.Command{
		captureCommand(env),
		clientsCommand(env),
		doctorCommand(env),
		execCommand(env),
		helpCommand(env),
		installCommand(env),
		kickCommand(env),
		logLevelCommand(env),
		logsCommand(),
		migrateCommand(env),
		rollbackCommand(env),
		selftestCommand(env),
		serviceCommand(env),
		statusCommand(env),
		tryCommand(env),
		upgradeCommand(env),
		versionCommand(env),
	}
	for _, c := range all {
		c.Flags = append(c.Flags, &cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show this help and exit"})
	}
	return all
}

// commandNames are the names of the subcommands.
func commandNames() (names []string) {
	for _, c := range commands(compat.IO{}) {
		names = append(names, c.Name)
	}
	return names
}

// errUsage is a bad command line.
type errUsage struct{ error }

// Unwrap is what is bad about it.
func (e errUsage) Unwrap() error { return e.error }

// An exit is the exit code of an action, which may have no error.
type exit struct {
	code int
	err  error
}

// Error is that of the error.
func (e exit) Error() string { return e.err.Error() }

// coded makes an action of one that returns its exit code. With an error that is at least 1.
func coded(action func(c *cli.Context, env compat.IO) (int, error), env compat.IO) cli.ActionFunc {
	return func(c *cli.Context) error {
		code, err := action(c, env)
		if err != nil {
			code = max(code, 1)
		}
		return exit{code, err}
	}
}

// runCommand carries out a subcommand, whose arguments are args, and returns the exit code.
func runCommand(name string, args []string, env compat.IO) int {
	all := commands(env)
	c := all[slices.IndexFunc(all, func(c *cli.Command) bool { return c.Name == name })]
	set, err := compat.ParseCommand(c, args)
	switch {
	case errors.Is(err, compat.ErrHelp):
		if _, err = io.WriteString(env.Stdout, compat.Usage(c, env.Width)); errors.Is(err, syscall.EPIPE) {
			err = nil // as for head
		}
	case err != nil:
		err = errUsage{err}
	default:
		err = c.Action(cli.NewContext(nil, set, nil))
	}
	code := 1
	if e, ok := errors.AsType[exit](err); ok {
		code, err = e.code, e.err
	} else if err == nil {
		code = 0
	}
	if err == nil {
		return code
	}
	log, errs := compat.NewLogger(env.Stderr, slog.LevelInfo), []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok && err.Error() == errors.Join(joined.Unwrap()...).Error() {
		errs = joined.Unwrap() // of errors.Join
	}
	for _, err := range errs {
		if errors.As(err, new(errUsage)) {
			err = compat.SeeHelp(err, c.Name)
		}
		compat.LogError(log, err)
	}
	return code
}
