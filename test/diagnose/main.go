// SPDX-License-Identifier: Apache-2.0

// Command diagnose provokes failures in running daemons, types the commands that a user would, and writes what they print to
// docs/diagnosing.md. It fails if a cause is not named there, or if a daemon in order is said to have a problem.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/socket-vmnet2/socket_vmnet2/test/e2e/lab"
)

func main() {
	if done, err := otherRole(); done {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	check := flag.Bool("check", false, "change nothing: fail if the page does not look like what the programs print")
	only := flag.String("scene", "", "play one scene, print it and leave the page alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, *only, *check)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "diagnose: FAILED: %v\n", err)
		os.Exit(1)
	}
}

// otherRole does what this program is called for under other names: a guest, or a scene in a network namespace of its own.
func otherRole() (bool, error) {
	if strings.HasPrefix(filepath.Base(os.Args[0]), guestPrefix) {
		return true, runGuest(os.Args, os.Stdin, os.Stdout)
	}
	if name := os.Getenv(sceneEnv); name != "" {
		return true, playInside(name, os.Stdout)
	}
	return false, nil
}

func run(ctx context.Context, only string, check bool) error {
	root, err := lab.ModuleRoot()
	if err != nil {
		return err
	}
	w, err := newWorld(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = w.remove() }()
	if only != "" {
		s, ok := sceneOf(only)
		if !ok {
			return fmt.Errorf("no scene %q", only)
		}
		r := play(ctx, w, s)
		for _, section := range r.Sections {
			fmt.Printf("## %s\n%s\n", section.Name, section.Text)
		}
		return r.err()
	}
	if err := lookForTools(); err != nil {
		return err
	}
	results := playAll(ctx, w, scenes)
	for _, r := range results {
		if err := r.err(); err != nil {
			return err
		}
	}
	page, err := fillPage(results)
	if err != nil {
		return err
	}
	path := filepath.Join(root, pagePath)
	if !check {
		return os.WriteFile(path, []byte(page), 0o644) //nolint:gosec // a page
	}
	is, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if d := differences(string(is), page); d != "" {
		return fmt.Errorf("%s is not what the programs print now: %s", pagePath, d)
	}
	return nil
}
