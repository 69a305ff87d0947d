// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// helpText and versionText are the usage texts.
const (
	helpText = `Usage: socket_vmnet2 help [COMMAND]
Prints the usage text of the daemon, or that of COMMAND. The daemon's has the names of all commands.

-h, --help                             print this text and end

Exit code: 0 done, 1 there is no such command
`
	versionText = `Usage: socket_vmnet2 version [--json]
Tells the version of this program. That of a daemon that runs, which may be another one, is in socket_vmnet2 status.

--json                                 print a line of JSON: version, the version of go that built it, os and arch
-h, --help                             print this text and end

Exit code: 0 done, 1 not done
`
)

// runHelp is the subcommand: args are what follows its name.
func runHelp(args []string, env compat.IO) int {
	return subcommand{
		name:   "help",
		usage:  helpText,
		action: func(c *cli.Context) (int, error) { return helpAction(c.Args().Slice(), env) },
	}.run(args, env)
}

// helpAction does what a command line asks for: it has the daemon or the subcommand print its own text.
func helpAction(args []string, env compat.IO) (int, error) {
	env.Commands = commandNames()
	switch {
	case len(args) == 0:
		_, outcome := compat.Parse(compat.New, []string{"socket_vmnet2", "--help"}, env)
		return outcome.Code, nil
	case len(args) > 1:
		return 1, errUsage{fmt.Errorf("help takes one COMMAND, not %q as well", args[1])}
	case !slices.Contains(env.Commands, args[0]):
		return 1, compat.UnknownCommand(args[0], env.Commands)
	}
	return subcommands()[args[0]]([]string{"--help"}, env), nil
}

// runVersion is the subcommand: args are what follows its name.
func runVersion(args []string, env compat.IO) int {
	return subcommand{
		name:   "version",
		usage:  versionText,
		flags:  []cli.Flag{&cli.BoolFlag{Name: "json"}},
		action: func(c *cli.Context) (int, error) { return orOne(0, versionAction(c, env)) },
	}.run(args, env)
}

// versionAction does what a command line of known options asks for.
func versionAction(c *cli.Context, env compat.IO) error {
	if c.Args().Present() {
		return errUsage{fmt.Errorf("version takes options only, not %q", c.Args().First())}
	}
	line := []byte(compat.Version)
	if c.Bool("json") {
		var err error
		if line, err = json.Marshal(programVersion{compat.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH}); err != nil {
			return fmt.Errorf("encode the version: %w", err)
		}
	}
	_, err := fmt.Fprintf(env.Stdout, "%s\n", line)
	return err
}

// A programVersion is what version --json prints.
type programVersion struct {
	Version string `json:"version"`
	Go      string `json:"go"` // runtime.Version
	OS      string `json:"os"` // runtime.GOOS
	Arch    string `json:"arch"`
}
