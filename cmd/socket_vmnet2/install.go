// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/setup"
)

func installCommand(env compat.IO) *cli.Command {
	return &cli.Command{
		Name: "install",
		Usage: `Puts the programs where socket_vmnet's are, as real files, and keeps what was there: "socket_vmnet2 rollback" brings all of
it back as it was. What starts them, such as a job of launchd or Lima's networks.yaml and sudoers, stays as it is. It can be
interrupted anywhere and run again.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "prefix", Value: find.DefaultPrefix, Usage: "`DIR` install below this directory (default: /opt/socket_vmnet)"},
			&cli.StringFlag{Name: "root", Usage: "`DIR` prepare another system's files below this directory (default: /)"},
			&cli.StringFlag{Name: "from", Usage: "`DIR` where the programs are: a directory with all of them, or with bin and libexec in it (default: where this program is)"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print what would be done, and change nothing"},
		},
		Description: `The programs are bin/socket_vmnet, bin/socket_vmnet2, bin/socket_vmnet_client and libexec/vmnet-helper. Only root may be able
to change the directories that lead to them; Lima demands the same. What was there is in share/socket_vmnet2/backup.

Exit code: 0 they are installed, 1 they are not`,
		Action: installer(setup.Install, env),
	}
}

func rollbackCommand(env compat.IO) *cli.Command {
	return &cli.Command{
		Name: "rollback",
		Usage: `Undoes "socket_vmnet2 install": every file is again what it was, with owner, mode and time, and what was not there is gone.
What has been put in the place of a program since, by others, is left alone. It can be interrupted anywhere and run again.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "prefix", Value: find.DefaultPrefix, Usage: "`DIR` roll back below this directory (default: /opt/socket_vmnet)"},
			&cli.StringFlag{Name: "root", Usage: "`DIR` work below this directory (default: /)"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print what would be done, and change nothing"},
		},
		Description: "Exit code: 0 everything is as it was, 1 it is not",
		Action:      installer(setup.Rollback, env),
	}
}

// installer is what both have in common.
func installer(do func(context.Context, setup.Options) error, env compat.IO) cli.ActionFunc {
	return func(c *cli.Context) error {
		for _, name := range []string{"prefix", "root", "from"} {
			if c.IsSet(name) && c.String(name) == "" {
				return errUsage{fmt.Errorf("--%s= names no directory", name)}
			}
		}
		return do(c.Context, setup.Options{
			Prefix: c.String("prefix"), Root: c.String("root"), From: c.String("from"), DryRun: c.Bool("dry-run"), Out: env.Stdout,
		})
	}
}
