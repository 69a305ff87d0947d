// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

func helpCommand(env compat.IO) *cli.Command {
	return &cli.Command{
		Name:        "help",
		Usage:       "Prints the usage text of the daemon, or that of COMMAND. The daemon's has the names of all commands.",
		ArgsUsage:   "[COMMAND]",
		Description: "Exit code: 0 done, 1 there is no such command",
		Action:      coded(helpAction, env),
	}
}

// helpAction has the daemon or the subcommand print its own text.
func helpAction(c *cli.Context, env compat.IO) (int, error) {
	env.Commands = commandNames()
	name := c.Args().First()
	switch {
	case name == "":
		_, code := compat.Parse(compat.New, []string{"socket_vmnet2", "--help"}, env)
		return code, nil
	case !slices.Contains(env.Commands, name):
		return 1, compat.UnknownCommand(name, env.Commands)
	}
	return runCommand(name, []string{"--help"}, env), nil
}

func versionCommand(env compat.IO) *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       `Tells the version of this program. That of a daemon that runs, which may be another one, is in socket_vmnet2 status.`,
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print a line of JSON: version, the version of go that built it, os and arch"}},
		Description: "Exit code: 0 done, 1 not done",
		Action: func(c *cli.Context) error {
			line := compat.Version
			if c.Bool("json") {
				line = jsonString(map[string]string{"version": compat.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
			}
			_, err := fmt.Fprintf(env.Stdout, "%s\n", line)
			return err
		},
	}
}
