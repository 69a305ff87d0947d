// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/setup"
)

func serviceCommand(env compat.IO) *cli.Command {
	return &cli.Command{
		Name: "service",
		Usage: `Makes the daemon a service of this system, launchd's on macOS and systemd's on Linux: it runs from boot on and is started again
when it has ended. Each network is a service of its own. What is as it should be already is left alone, and that is no error.

"install" writes the service's files, starts it, and has it started at boot; one that is installed otherwise is changed and
started again. "uninstall" stops it and removes its files; logs and state stay. "start", "stop" and "restart" are for a
service that is installed. "status" tells whether it runs, its process, socket, options, files and log.`,
		ArgsUsage: "install|uninstall|start|stop|restart|status [-- DAEMON OPTION... SOCKET]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "network", Usage: "`(shared|host|bridged)` the kind of network (default: shared)"},
			&cli.StringFlag{Name: "interface", Usage: "`IF` the interface of this host that bridged mode uses, such as \"en0\""},
			&cli.StringFlag{Name: "name", Usage: "`NAME` a service with a name of its own, for a further network"},
			&cli.BoolFlag{Name: "user", Usage: "a service of this user, without root; on macOS from version 26 on"},
			&cli.BoolFlag{Name: "socket-activated", Usage: "with install: the service manager makes the socket, and no client is refused during a restart"},
			&cli.StringFlag{Name: "prefix", Value: setup.Prefix(), Usage: "`DIR` with install: the program is DIR/bin/socket_vmnet2 (default: /opt/socket_vmnet, or /usr in a package)"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print every file and command, and change nothing"},
		},
		Description: `The daemon's options and SOCKET behind -- take the place of the network's own, which are those of socket_vmnet: the gateway
192.168.105.1 (host: 192.168.106.1), and the socket /var/run/socket_vmnet (host: /var/run/socket_vmnet.host, bridged:
/var/run/socket_vmnet.bridged.en0). Services of a user have theirs in $HOME/.socket_vmnet2, or on Linux in
$XDG_RUNTIME_DIR/socket_vmnet2.

A program that the system starts must be at a path that only root can change, links not allowed: "socket_vmnet2 install" puts
it at one.

Exit code: 0 done, or the service runs; 1 not done; status also: 3 it is stopped, 4 it is not installed`,
		Action: coded(serviceAction, env),
	}
}

// serviceVerbs are what service can do.
var serviceVerbs = []string{"install", "uninstall", "start", "stop", "restart", "status"}

// serviceOptions refuses what the verb has no use for.
func serviceOptions(c *cli.Context, verb string) error {
	switch {
	case !slices.Contains(serviceVerbs, verb):
		return fmt.Errorf("service cannot %s, only %s", verb, strings.Join(serviceVerbs, ", "))
	case c.NArg() > 1 && verb != "install":
		return fmt.Errorf("the daemon's options behind -- are for service install, not for service %s", verb)
	}
	for _, f := range c.LocalFlagNames() {
		switch {
		case c.String(f) == "":
			return fmt.Errorf("--%s needs a value", f)
		case verb != "install" && (f == "socket-activated" || f == "prefix"), verb == "status" && f == "dry-run":
			return fmt.Errorf("--%s is not for service %s", f, verb)
		}
	}
	return nil
}

// serviceAction does what a command line of known options asks for.
func serviceAction(c *cli.Context, env compat.IO) (int, error) {
	verb := c.Args().First()
	if err := serviceOptions(c, verb); err != nil {
		return 1, errUsage{err}
	}
	log := compat.NewLogger(env.Stderr, slog.LevelInfo)
	j, err := setup.NewJob(setup.This(), setup.JobOptions{
		Network: c.String("network"), Interface: c.String("interface"), Name: c.String("name"), User: c.Bool("user"),
		Activated: c.Bool("socket-activated"), Prefix: c.String("prefix"), Daemon: c.Args().Tail(), Installing: verb == "install",
		Out: env.Stdout, Dry: c.Bool("dry-run"), Warn: func(text string) { log.Warn("as things are this would be refused: " + text) },
	})
	if err != nil {
		return 1, err
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if verb == "status" {
		return j.Status(ctx)
	}
	return 0, j.Do(ctx, verb)
}
