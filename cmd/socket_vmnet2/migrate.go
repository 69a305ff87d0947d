// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
)

func migrateCommand(env compat.IO) *cli.Command {
	return &cli.Command{
		Name: "migrate",
		Usage: `Looks for what of socket_vmnet is here - programs, jobs, Lima's networks, Colima, minikube, running daemons and their clients -
and prints it, and the lines to type to have socket_vmnet2 in its place. It only reads. With sudo it can read more.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print one JSON document instead of text"},
			&cli.StringFlag{Name: "root", Usage: "`DIR` look below this directory as if it were /, and at no running process"},
		},
		Description: "Exit code: 0 there is something to move or it has been moved, 1 an error, 2 no socket_vmnet was found that can be moved",
		Action:      coded(migrateAction, env),
	}
}

// exitNothing is the exit code when there is nothing to migrate.
const exitNothing = 2

// migrateAction does what a command line of known options asks for.
func migrateAction(c *cli.Context, env compat.IO) (int, error) {
	s, err := systemToLookAt(c)
	if err != nil {
		return 0, err
	}
	done := progress(env, "looking for programs, jobs, machines and processes")
	inventory := find.Look(c.Context, s)
	done()
	moves := inventory.Moves(s.Program)
	code := 0
	if !inventory.Ours() && !slices.ContainsFunc(moves, func(m find.Move) bool { return len(m.Lines) > 0 }) {
		code = exitNothing
	}
	if !c.Bool("json") {
		return code, inventory.WriteText(env.Stdout, moves, screenOf(env).width())
	}
	return code, writeJSON(env.Stdout, struct {
		*find.Inventory
		Moves []find.Move `json:"moves"`
	}{inventory, moves})
}

// writeJSON writes one document for programs, and for a person to read.
func writeJSON(w io.Writer, document any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(document)
}

// systemToLookAt is what the options of migrate and doctor ask to look at.
func systemToLookAt(c *cli.Context) (s find.System, err error) {
	s = find.Machine()
	if s.Program, err = os.Executable(); err != nil {
		return s, fmt.Errorf("the path of this program is not known: %w", err)
	}
	s.Version = compat.Version
	if c.IsSet("root") {
		dir := c.String("root")
		if dir == "" {
			return s, errUsage{errors.New("--root needs a directory")}
		}
		root, err := filepath.Abs(dir)
		if err == nil {
			_, err = os.Stat(root + "/") // it is a directory
		}
		if err != nil {
			return s, fmt.Errorf("--root=%s cannot be looked at: %w", dir, err)
		}
		if root != "/" {
			s = find.System{Root: root, GOOS: s.GOOS, Program: s.Program, Version: s.Version}
		}
	}
	s.Homes = homes(s.Root)
	return s, nil
}

// homes are the home directories to look at: that of the user, behind sudo also that of its caller, and for a staged system or as
// root on macOS all in /Users.
func homes(root string) []string {
	var all []string
	if root == "" {
		home, _ := os.UserHomeDir()
		all = append(all, home)
		if u, err := user.Lookup(os.Getenv("SUDO_USER")); err == nil && os.Geteuid() == 0 {
			all = append(all, u.HomeDir)
		}
	}
	if root != "" || runtime.GOOS == "darwin" && os.Geteuid() == 0 {
		entries, _ := os.ReadDir(filepath.Join(root, "/Users"))
		for _, e := range entries {
			all = append(all, filepath.Join("/Users", e.Name()))
		}
	}
	all = slices.DeleteFunc(all, func(home string) bool { return !filepath.IsAbs(home) })
	slices.Sort(all)
	return slices.Compact(all)
}
