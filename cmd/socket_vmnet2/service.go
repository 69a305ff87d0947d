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
	"github.com/socket-vmnet2/socket_vmnet2/internal/service"
)

// serviceText is the usage text of all verbs.
const serviceText = `Usage: socket_vmnet2 service install [--network=NETWORK] [--interface=IF] [--name=NAME] [--user] [--socket-activated] [--prefix=DIR] [--dry-run] [-- DAEMON OPTION... SOCKET]
       socket_vmnet2 service uninstall|start|stop|restart [--network=NETWORK] [--interface=IF] [--name=NAME] [--user] [--dry-run]
       socket_vmnet2 service status [--network=NETWORK] [--interface=IF] [--name=NAME] [--user]
Makes the daemon a service of this system, launchd's on macOS and systemd's on Linux: it runs from boot on and is started again
when it has ended. Each network is a service of its own. What is as it should be already is left alone, and that is no error.

install                                write the service's files, start it, and have it started at boot; one that
                                       is installed otherwise is changed and started again
uninstall                              stop the service and remove its files; logs and state stay
start, stop, restart                   of a service that is installed
status                                 whether it runs, its process, socket, options, files and log

--network=NETWORK                      shared, host or bridged (default: shared)
--interface=IF                         the interface of this host that bridged mode uses, such as "en0"
--name=NAME                            a service with a name of its own, for a further network
--user                                 a service of this user, without root; on macOS from version 26 on
--socket-activated                     the service manager makes the socket: no client is refused during a restart
--prefix=DIR                           the program is DIR/bin/socket_vmnet2 (default: /opt/socket_vmnet)
--dry-run                              print every file and command, and change nothing
-h, --help                             print this text and end

The daemon's options and SOCKET behind -- take the place of the network's own, which are those of socket_vmnet: the gateway
192.168.105.1 (host: 192.168.106.1), and the socket /var/run/socket_vmnet (host: /var/run/socket_vmnet.host, bridged:
/var/run/socket_vmnet.bridged.en0). Services of a user have theirs in $HOME/.socket_vmnet2. On Linux they are in
/run/socket_vmnet2 or $XDG_RUNTIME_DIR/socket_vmnet2.

A program that the system starts must be at a path that only root can change, links not allowed: "socket_vmnet2 install" puts
it at one.

Exit code: 0 done, or the service runs; 1 not done; status also: 3 it is stopped, 4 it is not installed
`

// serviceVerbs are what service can do.
var serviceVerbs = []string{"install", "uninstall", "start", "stop", "restart", "status"}

// runService is the subcommand: args are what follows its name.
func runService(args []string, env compat.IO) int {
	verb := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	o := service.Options{Installing: verb == "install"}
	if i := slices.Index(args, "--"); i >= 0 {
		o.Daemon, o.DaemonSet, args = args[i+1:], true, args[:i]
	}
	return subcommand{
		name:  "service",
		usage: serviceText,
		flags: []cli.Flag{
			&cli.StringFlag{Name: "network"}, &cli.StringFlag{Name: "interface"}, &cli.StringFlag{Name: "name"}, &cli.BoolFlag{Name: "user"},
			&cli.BoolFlag{Name: "dry-run"}, &cli.BoolFlag{Name: "socket-activated"}, &cli.StringFlag{Name: "prefix", Value: service.DefaultPrefix},
		},
		action: func(c *cli.Context) (int, error) {
			if err := serviceUsage(c, verb, o); err != nil {
				return 1, errUsage{err}
			}
			o.Network, o.Interface, o.Name, o.User = c.String("network"), c.String("interface"), c.String("name"), c.Bool("user")
			o.Activated, o.Prefix = c.Bool("socket-activated"), c.String("prefix")
			log := compat.NewLogger(env.Stderr, slog.LevelInfo)
			code, err := serviceAction(c, verb, o, env, log)
			if all, ok := err.(interface{ Unwrap() []error }); ok { // of errors.Join: a line for each
				errs := all.Unwrap()
				for _, e := range errs[:len(errs)-1] {
					compat.LogError(log, e)
				}
				err = errs[len(errs)-1]
			}
			return code, err
		},
	}.run(args, env)
}

// serviceUsage tells what is wrong with a command line.
func serviceUsage(c *cli.Context, verb string, o service.Options) error {
	switch {
	case verb == "":
		return fmt.Errorf("what is service to do? One of %s", strings.Join(serviceVerbs, ", "))
	case !slices.Contains(serviceVerbs, verb):
		return fmt.Errorf("service cannot %s, only %s", verb, strings.Join(serviceVerbs, ", "))
	case c.Args().Present():
		return fmt.Errorf("%q is no option; the daemon's options and SOCKET are behind --", c.Args().First())
	case o.DaemonSet && verb != "install":
		return fmt.Errorf("the daemon's options behind -- are for service install, not for service %s", verb)
	}
	for _, name := range c.FlagNames() {
		if name == "dry-run" && verb == "status" || (name == "socket-activated" || name == "prefix") && verb != "install" {
			return fmt.Errorf("--%s is not for service %s", name, verb)
		}
		if c.String(name) == "" && slices.Contains([]string{"network", "interface", "name", "prefix"}, name) {
			return fmt.Errorf("--%s needs a value", name)
		}
	}
	return nil
}

// serviceAction does what a good command line asks for.
func serviceAction(c *cli.Context, verb string, o service.Options, env compat.IO, log *slog.Logger) (int, error) {
	s, err := service.New(service.This(), o, service.Run{Out: env.Stdout, Dry: c.Bool("dry-run"), Warn: func(text string) {
		log.Warn("as things are this would be refused: " + text)
	}})
	if err != nil {
		return 1, err
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if verb == "status" {
		return s.Status(ctx)
	}
	return 0, s.Do(ctx, verb)
}
