// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/doctor"
)

// doctorText is the usage text.
const doctorText = `Usage: socket_vmnet2 doctor [--json] [--root=DIR] [--home=DIR] [--reach=IP] [SOCKET]
Checks what of socket_vmnet and socket_vmnet2 is here and what it depends on: programs and their paths, Lima's sudoers file,
jobs, running daemons, sockets and who may use them, subnets, macOS's DHCP server and firewall, QEMU. It says of each thing
that is wrong what to do about it. It only reads. With sudo it can read more.

--json                                 print one JSON document instead of text
--root=DIR                             look below this directory as if it were /: at files only, no program and no daemon is
                                       asked
--home=DIR                             look at this home directory only, as seen from --root (default: the user's own, and
                                       under --root or as root on macOS those in /Users)
--reach=IP                             also try to reach the guest with this address, and say why it cannot be reached
-h, --help                             print this text and end

SOCKET may also be a daemon's runtime directory. Without it, all daemons that are found are looked at.

Exit code: 0 nothing is wrong, 1 the checks could not be made, 2 there is a warning, 3 there is an error
`

// runDoctor is the subcommand: args are what follows its name.
func runDoctor(args []string, env compat.IO) int {
	return subcommand{
		name:  "doctor",
		usage: doctorText,
		flags: []cli.Flag{
			&cli.BoolFlag{Name: "json"},
			&cli.StringFlag{Name: "root"},
			&cli.StringFlag{Name: "home"},
			&cli.StringFlag{Name: "reach"},
		},
		action: func(c *cli.Context) (int, error) { return doctorAction(c, env) },
	}.run(args, env)
}

// doctorAction does what a command line of known options asks for.
func doctorAction(c *cli.Context, env compat.IO) (int, error) {
	s, err := systemToExamine(c)
	if err != nil {
		return 1, err
	}
	report := doctor.Examine(c.Context, s)
	if c.Bool("json") {
		err = writeJSON(env.Stdout, report)
	} else {
		err = report.WriteText(env.Stdout)
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
	switch args := c.Args().Slice(); {
	case len(args) == 0:
	case args[0] == "":
		return s, errUsage{errors.New("SOCKET is empty")}
	case len(args) > 1 && strings.HasPrefix(args[1], "-"):
		return s, errUsage{fmt.Errorf("%s is behind SOCKET; options are in front of it", args[1])}
	case len(args) > 1:
		return s, errUsage{fmt.Errorf("doctor takes one SOCKET, not %q as well", args[1])}
	default:
		socket := args[0]
		if where.Root == "" {
			if socket, err = filepath.Abs(socket); err != nil {
				return s, fmt.Errorf("%s: %w", args[0], err)
			}
		} else if !filepath.IsAbs(socket) {
			return s, errUsage{fmt.Errorf("%s is not absolute: below --root, SOCKET begins with /", socket)}
		}
		s.Sockets = []string{socket}
	}
	if c.IsSet("reach") {
		if s.Reach, err = netip.ParseAddr(c.String("reach")); err != nil || s.Reach.Zone() != "" {
			return s, errUsage{fmt.Errorf("--reach=%s is no IP address", c.String("reach"))}
		}
	}
	return s, nil
}
