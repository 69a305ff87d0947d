// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/doctor"
)

func doctorCommand(env compat.IO) *cli.Command {
	return &cli.Command{
		Name: "doctor",
		Usage: `Checks what of socket_vmnet and socket_vmnet2 is here and what it depends on: programs and their paths, Lima's sudoers file,
jobs, running daemons, sockets and their rights, subnets, macOS's DHCP server and firewall, QEMU. It says of each thing
that is wrong what to do about it. It only reads. With sudo it can read more.`,
		ArgsUsage: "[SOCKET]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "problems", Usage: "print errors and warnings only, and the line that sums it up"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON document instead of text"},
			&cli.StringFlag{Name: "root", Usage: "`DIR` look below this directory as if it were /: at files only, no program and no daemon is asked"},
			&cli.StringFlag{Name: "reach", Usage: "`IP` also try to reach the guest with this address, and say why it cannot be reached"},
		},
		Description: `SOCKET may also be a daemon's runtime directory. Without it, all daemons that are found are looked at.

Exit code: 0 nothing is wrong, 1 the checks could not be made, 2 there is a warning, 3 there is an error`,
		Action: coded(doctorAction, env),
	}
}

// doctorAction does what a command line of known options asks for.
func doctorAction(c *cli.Context, env compat.IO) (int, error) {
	s, err := systemToExamine(c)
	if err != nil {
		return 1, err
	}
	if c.Bool("problems") && c.Bool("json") {
		return 1, errUsage{errors.New("--problems does not go with --json, which has the severity of each finding")}
	}
	report := doctor.Examine(c.Context, s)
	if c.Bool("json") {
		err = writeJSON(env.Stdout, report)
	} else {
		v := screenOf(env).options(false)
		v.Piped, v.Width = false, screenOf(env).width()
		_, err = io.WriteString(env.Stdout, report.Text(v, c.Bool("problems")))
	}
	if err != nil {
		return 1, err
	}
	return report.ExitCode(), nil
}

// systemToExamine is what the options ask to look at.
func systemToExamine(c *cli.Context) (doctor.System, error) {
	where, err := systemToLookAt(c)
	if err != nil {
		return doctor.System{}, err
	}
	s := doctor.Host(where)
	if socket := c.Args().First(); socket != "" {
		if where.Root == "" {
			if abs, err := filepath.Abs(socket); err == nil {
				socket = abs
			}
		} else if !filepath.IsAbs(socket) {
			return s, errUsage{fmt.Errorf("%s is not absolute: below --root, SOCKET begins with /", socket)}
		}
		s.Named = []string{socket}
	}
	if c.IsSet("reach") {
		if s.Reach, err = netip.ParseAddr(c.String("reach")); err != nil || s.Reach.Zone() != "" {
			return s, errUsage{fmt.Errorf("invalid --reach=%s: use an IP address", c.String("reach"))}
		}
	}
	return s, nil
}
