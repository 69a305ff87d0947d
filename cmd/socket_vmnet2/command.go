// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// A subcommand is what the first argument can ask for: its options and what it does.
type subcommand struct {
	name  string // behind socket_vmnet2
	usage string // the whole text, in the form that internal/manual reads
	flags []cli.Flag
	// action does it, and returns the exit code. With an error that is at least 1, and a usage error has the usage text follow.
	action func(c *cli.Context) (code int, err error)
}

// ownHelp takes the library's --help away, which takes an operand for a topic.
var ownHelp = sync.OnceFunc(func() { cli.HelpFlag = nil })

// run carries out the command line whose arguments behind the command's name are args.
func (m subcommand) run(args []string, env compat.IO) (code int) {
	ownHelp()
	app := &cli.App{
		Name:                      "socket_vmnet2 " + m.name,
		Flags:                     append(slices.Clip(m.flags), &cli.BoolFlag{Name: "help", Aliases: []string{"h"}}),
		Writer:                    env.Stdout,
		ErrWriter:                 env.Stderr,
		HideHelpCommand:           true,
		HideVersion:               true,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              func(_ *cli.Context, err error, _ bool) error { return errUsage{inOurWords(err)} },
		Action: func(c *cli.Context) (err error) {
			if c.Bool("help") {
				_, err = io.WriteString(env.Stdout, m.usage)
				return err
			}
			code, err = m.action(c)
			return err
		},
	}
	err := app.Run(append([]string{app.Name}, args...))
	if err == nil {
		return code
	}
	compat.LogError(compat.NewLogger(env.Stderr, slog.LevelInfo), err)
	if errors.As(err, new(errUsage)) {
		_, _ = io.WriteString(env.Stdout, m.usage)
	}
	return max(code, 1)
}

// orOne makes the exit code of any error 1, for actions whose other codes tell of what they found.
func orOne(code int, err error) (int, error) {
	if err != nil {
		code = 1
	}
	return code, err
}
