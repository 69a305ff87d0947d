// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/setup"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
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
		Action: installer(func(c *cli.Context, o setup.Options) error {
			o.From = c.String("from")
			r, err := setup.Install(c.Context, o)
			if r == nil {
				return err
			}
			return installReport(c.Context, env.Stdout, fmt.Sprintf("Install %s below %s", r.Version, r.Prefix), o, r, err, afterInstall(r))
		}),
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
		Action: installer(func(c *cli.Context, o setup.Options) error {
			r, err := setup.Rollback(o)
			return installReport(c.Context, env.Stdout, "Roll back below "+o.Prefix, o, r, err)
		}),
	}
}

// installer is what both have in common.
func installer(do func(*cli.Context, setup.Options) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		for _, name := range []string{"prefix", "root", "from"} {
			if c.IsSet(name) && c.String(name) == "" {
				return errUsage{fmt.Errorf("--%s= names no directory", name)}
			}
		}
		return do(c, setup.Options{Prefix: c.String("prefix"), Root: c.String("root"), DryRun: c.Bool("dry-run")})
	}
}

// installReport tells a person what happened, and what to do now.
func installReport(ctx context.Context, w io.Writer, head string, o setup.Options, r *setup.Report, err error, more ...string) error {
	if r == nil {
		return err
	}
	switch {
	case o.DryRun && r.Changed:
		head += ", if it were not a dry run"
	case err != nil:
		head += ", which failed; this was to be done"
	}
	if len(r.Files) > 0 {
		fmt.Fprintf(w, "%s:\n", head)
	}
	for _, s := range r.Files {
		fmt.Fprintf(w, "  %-24s %s\n", s.Path, s.What)
	}
	if err != nil {
		return err
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, n)
	}
	if !r.Changed {
		return nil
	}
	_, err = io.WriteString(w, "\nNow\n"+restartLines(ctx, o, r.Prefix)+strings.Join(more, ""))
	return err
}

// afterInstall is what there is to say besides.
func afterInstall(r *setup.Report) (lines string) {
	program := printable.Quote(filepath.Join(r.Prefix, "bin/socket_vmnet2"))
	if r.Update {
		lines = fmt.Sprintf("  or, for a daemon of socket_vmnet2's, without losing a client: sudo %s upgrade SOCKET\n", program)
	}
	if strings.Contains(r.Prefix, " ") {
		lines += "  Lima takes no program from a path with a space: its networks cannot use these.\n"
	}
	lines += fmt.Sprintf("To go back: sudo %s rollback", program)
	if r.Prefix != find.DefaultPrefix {
		lines += " --prefix=" + printable.Quote(r.Prefix)
	}
	return lines + "\n"
}

// restartLines are about what runs from the prefix: it goes on as the program that it was until it is started again.
func restartLines(ctx context.Context, o setup.Options, prefix string) (lines string) {
	there := find.LookAtJobs(ctx, find.System{Root: strings.TrimSuffix(o.Root, "/")})
	for _, j := range there.Jobs {
		if strings.HasPrefix(j.Program, prefix+"/") {
			lines += fmt.Sprintf("  start what %s runs anew: sudo launchctl kickstart -k %s\n", j.Path, printable.Quote(j.Target()))
		}
	}
	for _, u := range there.Units {
		if strings.HasPrefix(u.Program, prefix+"/") {
			lines += fmt.Sprintf("  start what %s runs anew: sudo systemctl restart %s\n", u.Path, printable.Quote(u.Name))
		}
	}
	if lines == "" {
		lines = "  no job of launchd or systemd runs a program from there; a daemon that was started by hand goes on as it is until it is stopped\n"
	}
	if runtime.GOOS != "darwin" && o.Root == "" {
		return lines
	}
	return lines + "  Lima's own networks (lima: in lima.yaml): nothing to change; the daemon is the one that is there now after the last instance on its network was\n" +
		"  stopped and one is started: limactl stop NAME && limactl start NAME\n"
}
