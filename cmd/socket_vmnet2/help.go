// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// summaries are what the commands do, in a line each.
var summaries = map[string]string{
	"capture":   "show the clients' frames, or record them for Wireshark",
	"clients":   "list the clients",
	"doctor":    "check what on this machine stops the network, and what to do",
	"exec":      "run a program, such as a VM, with a connection to the network",
	"help":      "show this help, or that of a command",
	"install":   "put the programs where socket_vmnet's are",
	"kick":      "disconnect clients",
	"log-level": "show or change how much the daemon logs",
	"logs":      "show what the daemon logged",
	"migrate":   "plan the move from socket_vmnet",
	"rollback":  "undo install",
	"selftest":  "test the network with fake guests",
	"service":   "have launchd or systemd run the daemon",
	"status":    "show the network, its clients and what is wrong",
	"try":       "try a network beside what is installed",
	"upgrade":   "have the daemon become the installed program; clients stay",
	"version":   "show the version of this program",
}

// commandItems are the subcommands for the usage text of the daemon.
func commandItems() (items []compat.Item) {
	for _, c := range commands(compat.IO{}) {
		items = append(items, compat.Item{Name: c.Name, Text: []string{summaries[c.Name]}})
	}
	return items
}

// widthOf is how long lines of text may be: what COLUMNS says, or the width of the terminal; 0 if neither is known.
func widthOf(env compat.IO) int {
	text, _ := env.LookupEnv("COLUMNS")
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return n
	}
	width, _ := screenOf(env).size()
	return width
}

// greeting tells on a terminal how a VM gets into the network that is ready; nil where it is not wanted.
func greeting(p compat.Personality, cfg *compat.Config) func() {
	if p != compat.New || cfg.LogFormat == "json" || !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	socket, err := filepath.Abs(cfg.SocketPath)
	if err != nil {
		return nil
	}
	lines := tryLines(tryReady{Socket: socket}, runtime.GOOS, randomMAC())
	use := lines[slices.IndexFunc(lines, func(l tryLine) bool { return l.For == "qemu" })].Use
	return func() {
		go func() { _, _ = fmt.Fprintf(os.Stderr, "ready: start QEMU with %s\n", printable.Lines(use)) }() // a terminal may be stopped
	}
}

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
	env.Commands = commandItems()
	name := c.Args().First()
	switch {
	case name == "":
		_, code := compat.Parse(compat.New, []string{compat.Program, "--help"}, env)
		return code, nil
	case !slices.Contains(commandNames(), name):
		return 1, compat.SeeHelp(compat.UnknownCommand(name, env.Commands), "")
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
