// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/migrate"
)

func migrateCommand(env compat.IO) *cli.Command {
	return &cli.Command{
		Name: "migrate",
		Usage: `Looks for what of socket_vmnet is here - programs, launchd jobs, Lima's networks, Colima, minikube, running daemons and their
clients - and prints a plan: what changes, which virtual machines lose their network and for how long, the commands in order,
how to check them and how to undo them. It only reads. With sudo it can read more.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print one JSON document instead of text"},
			&cli.StringFlag{Name: "root", Usage: "`DIR` look below this directory as if it were /, and at no running process"},
			&cli.StringFlag{Name: "home", Usage: homeUsage},
		},
		Description: "Exit code: 0 there is something to move or it has been moved, 1 an error, 2 no socket_vmnet was found that can be moved",
		Action:      coded(migrateAction, env),
	}
}

// homeUsage is that of the option --home, which doctor has as well.
const homeUsage = "`DIR` look at this home directory only, as seen from --root (default: the user's own, and under --root or as root on macOS those in /Users)"

// exitNothing is the exit code when there is nothing to migrate.
const exitNothing = 2

// migrateAction does what a command line of known options asks for.
func migrateAction(c *cli.Context, env compat.IO) (code int, err error) {
	s, err := systemToMigrate(c)
	if err != nil {
		return 0, err
	}
	plan := migrate.Find(c.Context, s)
	if plan.Verdict == migrate.VerdictNothing {
		code = exitNothing
	}
	if !c.Bool("json") {
		return code, plan.WriteText(env.Stdout)
	}
	out := json.NewEncoder(env.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return code, out.Encode(plan)
}

// systemToMigrate is what the options ask to look at.
func systemToMigrate(c *cli.Context) (migrate.System, error) {
	s := migrate.System{GOOS: runtime.GOOS, Version: compat.Version}
	program, err := os.Executable()
	if err != nil {
		return s, fmt.Errorf("the path of this program is not known: %w", err)
	}
	s.Program = program
	if c.IsSet("root") {
		if s.Root, err = directory("root", c.String("root")); err != nil {
			return s, err
		}
	}
	if s.Root == "/" {
		s.Root = ""
	}
	if s.Root == "" {
		s.Env, s.Run, s.Processes = os.Getenv, find.RunProgram, find.Processes
	}
	if !c.IsSet("home") {
		s.Homes = homes(s.Root)
		return s, nil
	}
	home := c.String("home")
	if !filepath.IsAbs(home) {
		return s, errUsage{fmt.Errorf("--home=%s is not absolute: name a directory that begins with /", home)}
	}
	home = filepath.Clean(home)
	if rest, ok := strings.CutPrefix(home, s.Root+"/"); ok && s.Root != "" {
		home = "/" + rest
	}
	if _, err := directory("home", filepath.Join(s.Root, home)); err != nil {
		return s, err
	}
	s.Homes = []string{home}
	if s.Root == "" {
		s.Env = func(key string) string { // the tools' own directories are those of the caller, not of that home
			if key == "PATH" {
				return os.Getenv(key)
			}
			return ""
		}
	}
	return s, nil
}

// directory is an option's value, absolute, if it is a directory.
func directory(option, dir string) (string, error) {
	if dir == "" {
		return "", errUsage{fmt.Errorf("--%s needs a directory", option)}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("--%s=%s: %w", option, dir, err)
	}
	fi, err := os.Stat(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("--%s=%s: there is no such directory", option, dir)
	}
	if err != nil {
		return "", fmt.Errorf("--%s=%s cannot be looked at: %w", option, dir, err)
	}
	if !fi.IsDir() {
		return "", fmt.Errorf("--%s=%s is not a directory", option, dir)
	}
	return abs, nil
}

// homes are the home directories to look at: that of the user and, behind sudo, that of who called it. All of a staged
// system's, and all for root on macOS, are those in /Users.
func homes(root string) []string {
	var all []string
	if root == "" {
		if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
			all = append(all, filepath.Clean(home))
		}
		if name := os.Getenv("SUDO_USER"); name != "" && os.Geteuid() == 0 {
			if u, err := user.Lookup(name); err == nil && filepath.IsAbs(u.HomeDir) {
				all = append(all, filepath.Clean(u.HomeDir))
			}
		}
	}
	if root != "" || runtime.GOOS == "darwin" && os.Geteuid() == 0 {
		entries, err := os.ReadDir(filepath.Join(root, "/Users"))
		if err == nil {
			for _, e := range entries {
				all = append(all, filepath.Join("/Users", e.Name()))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
