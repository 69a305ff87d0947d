// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

func tryCommand(env compat.IO) *cli.Command {
	network := compat.NewNetwork()
	return &cli.Command{
		Name: "try",
		Usage: `Runs a daemon in the foreground to try it beside whatever is installed: on a socket of its own, with a subnet that nothing on
this host uses. Prints what to put into Lima, minikube or a QEMU command line to use it, and how to undo that; its log tells of
each client that comes and goes. Ctrl-C ends it and removes all that it has made.`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print one line of JSON instead of text"},
		}, append(network.SocketFlags(), network.Flags()...)...),
		Description: `Without --vmnet-gateway a free subnet is chosen, as large as --vmnet-mask says, which may be given
alone here.

Exit code: 0 it ran until a signal ended it, 1 it did not start, or could not remove what it had made`,
		Action: func(c *cli.Context) error { return tryAction(c, network, env) },
	}
}

// A trial is one run of the subcommand.
type trial struct {
	cfg  *compat.Config
	json bool
	log  *compat.Log
	out  io.Writer
}

// tryAction does what a command line of known options asks for. Nothing is touched before all of it was checked.
func tryAction(c *cli.Context, network compat.Network, env compat.IO) error {
	t := &trial{json: c.Bool("json"), out: env.Stdout}
	if err := t.configure(c, network, env); err != nil {
		return err
	}
	if err := needsRoot(t.cfg.Backend); err != nil {
		return err
	}
	if _, err := t.cfg.Owner(); err != nil {
		return err
	}
	t.log = t.cfg.OpenLog(&compat.LogFile{FD: int(os.Stderr.Fd())})
	defer t.log.Flush()
	slog.SetDefault(t.log.Logger) // libraries that know no other logger
	ctx, stop := daemon.UntilSignal(t.log.Logger)
	defer stop()
	return t.run(ctx)
}

// placeholder stands for the gateway that is not chosen yet, so that everything else can be checked.
const placeholder = "192.168.105.1"

// configure reads the options, and chooses the subnet where that is for us to choose.
func (t *trial) configure(c *cli.Context, flags compat.Network, env compat.IO) (err error) {
	choose := !c.IsSet("vmnet-gateway") && c.String("vmnet-mode") != string(network.ModeBridged)
	if choose {
		for _, name := range []string{"vmnet-dhcp-end", "vmnet-reserve", "vmnet-forward"} {
			if c.IsSet(name) {
				return fmt.Errorf("--%s names an address in the subnet, so --vmnet-gateway=IP is needed, too", name)
			}
		}
		if err := c.Set("vmnet-gateway", placeholder); err != nil {
			return err
		}
	}
	if t.cfg, err = flags.Config(c, env); err != nil || t.cfg.Mode == network.ModeBridged {
		return err
	}
	table, incomplete := freenet.System()
	if choose {
		subnet, err := table.Choose(t.cfg.Subnet.Bits())
		if err != nil {
			return fmt.Errorf("%w: end what needs them, or name a network to use all the same with --vmnet-gateway=IP", err)
		}
		if err := c.Set("vmnet-gateway", subnet.Addr().Next().String()); err != nil {
			return err
		}
		if t.cfg, err = flags.Config(c, env); err != nil {
			return err
		}
	}
	if incomplete != nil {
		t.cfg.Warnings = append(t.cfg.Warnings, "not all that could collide with the network is known: "+incomplete.Error())
	}
	for _, o := range table.Overlaps(t.cfg.Subnet) {
		t.cfg.Warnings = append(t.cfg.Warnings, fmt.Sprintf("the network %s overlaps %s: one of the two is not reached; "+
			"leave --vmnet-gateway out to have a free one chosen", t.cfg.Subnet, o))
	}
	return nil
}

// needsRoot refuses what cannot work: vmnet on macOS 15 and older without root.
func needsRoot(b compat.Backend) error {
	if euid := os.Geteuid(); len(compat.PrivilegeWarnings(runtime.GOOS, b, euid, euid)) == 0 {
		return nil
	}
	program, _ := os.Executable() // which sudo's PATH may not have
	command := printable.Command(append([]string{"sudo", program}, os.Args[1:]...)...)
	return fmt.Errorf("vmnet needs root on macOS 15 and older, so run: %s (nothing was touched; --backend=usernet needs no root)", command)
}

// run serves until ctx is done and removes everything afterwards.
func (t *trial) run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("/tmp", "socket_vmnet2-try-") // $TMPDIR is too long on macOS
	if err != nil {
		return fmt.Errorf("no place for the socket: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if os.Geteuid() == 0 { // other users shall reach the socket, which its mode and group decide
		if err := os.Chmod(dir, 0o711); err != nil {
			return err
		}
	}
	t.cfg.SocketPath, t.cfg.StateDir = filepath.Join(dir, "sock"), filepath.Join(dir, "state")

	return daemon.Try(ctx, t.cfg, t.log, func(n network.Info, datagrams bool) error {
		if _, err := io.WriteString(t.out, t.describe(n, datagrams).text(t.json, programsHere())); err != nil {
			return fmt.Errorf("cannot tell where the socket is: %w", err)
		}
		return nil
	})
}
