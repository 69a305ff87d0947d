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
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/machrun"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

const (
	tags    = "vmnetsim" // which add the tests on the simulator
	timeout = "15m"      // a package's
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
	modules := [][2]string{{".", only}}
	if only == "" {
		list, err := packages(ctx, goTool)
		if err != nil {
			return err
		}
		modules = [][2]string{{".", strings.Join(list, " ")}, {"attach", "./..."}}
	}
	env, err := environment(ctx)
	if err != nil {
		return err
	}
	var failed error
	all := results{}
	for _, m := range modules {
		failed = errors.Join(failed, test(ctx, env, goTool, m[0], m[1], flags, all))
	}
	return errors.Join(failed, all.report(os.Stdout))
}

// test runs the tests of a module's packages, and counts them into all.
func test(ctx context.Context, env []string, goTool, module, packages string, flags []string, all results) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	args := []string{"test", "-json", "-tags", tags, "-vet=off", "-count=1", "-timeout", timeout, "-short", "-exec", filepath.Join(root, "test/asmac/exec.sh")}
	c := exec.CommandContext(ctx, goTool, slices.Concat(args, flags, strings.Fields(packages))...)
	c.Dir, c.Env, c.Stderr = filepath.Join(root, module), env, os.Stderr
	events, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return err
	}
	err = all.count(events, os.Stdout)
	return errors.Join(err, c.Wait())
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
