// SPDX-License-Identifier: Apache-2.0

// Command asmac runs the unit tests as programs for macOS (darwin/amd64): test/machrun loads them on Linux, with test/vmnetsim as
// vmnet.framework. It ends with how many there were; a test that is skipped must name the rule of macOS that forbids it.
//
//	go run ./test/asmac [-packages "./internal/link ./cmd/..."] [-- FLAG OF go test...]
//
// It needs root, for a network namespace around each test program, and gcc.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/machrun"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

const (
	// tags add the tests on the simulator.
	tags = "vmnetsim"
	// timeout is a package's.
	timeout = "15m"
)

func main() {
	goTool := flag.String("go", "go", "the go command")
	only := flag.String("packages", "", "these packages in place of all that have tests for it")
	flag.Parse()
	if err := run(context.Background(), *goTool, *only, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "test.mac:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, goTool, only string, flags []string) error {
	if os.Geteuid() != 0 && os.Getenv("CI") == "" {
		fmt.Println("test.mac: nothing ran: network namespaces need root: sudo make test.mac")
		return nil
	}
	if out, err := exec.CommandContext(ctx, "unshare", "-n", "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("no network namespace can be made, with unshare of util-linux and ip of iproute2: %w: %s", err, out)
	}
	all := only == ""
	if all {
		list, err := packages(ctx, goTool)
		if err != nil {
			return err
		}
		only = strings.Join(list, " ")
	}
	dir, err := os.MkdirTemp("", "asmac")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	env, err := environment(ctx)
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	r := runner{root: root, env: append(env, "GO="+goTool), flags: flags, events: filepath.Join(dir, "events")}
	err = r.test(ctx, ".", only)
	if all {
		err = errors.Join(err, r.test(ctx, "attach", "./..."))
	}
	return errors.Join(err, r.tell())
}

// A runner runs go test, and keeps what it says.
type runner struct {
	root, events string
	env, flags   []string
	files        []string
}

// test runs the tests of packages in a module.
func (r *runner) test(ctx context.Context, module, packages string) error {
	r.files = append(r.files, fmt.Sprint(r.events, len(r.files)))
	args := append([]string{packages, "-tags", tags, "-vet=off", "-count=1", "-timeout", timeout, "-short", "-exec", filepath.Join(r.root, "test/asmac/exec.sh")}, r.flags...)
	c := exec.CommandContext(ctx, filepath.Join(r.root, "test/gotest.sh"), args...)
	c.Dir = filepath.Join(r.root, module)
	c.Env = append(r.env, "EVENTS="+r.files[len(r.files)-1])
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}

// environment is go test's: for macOS, with the loader and the simulator where exec.sh and the loader look for them.
func environment(ctx context.Context) ([]string, error) {
	loader, err := machrun.Build(ctx)
	if err != nil {
		return nil, err
	}
	sim, err := vmnetsim.Build(ctx, vmnetsim.Full)
	if err != nil {
		return nil, err
	}
	return append(os.Environ(), "GOOS=darwin", "GOARCH=amd64", "CGO_ENABLED=0", "MACHRUN="+loader, "MACHRUN_VMNET="+sim), nil
}

// tell reports on all that ran.
func (r *runner) tell() error {
	var events []io.Reader
	for _, path := range r.files {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		events = append(events, f)
	}
	c, err := count(io.MultiReader(events...))
	if err != nil {
		return err
	}
	return c.report(os.Stdout)
}
