// SPDX-License-Identifier: Apache-2.0

// Command asmac runs the unit tests as programs for macOS (darwin/amd64): test/machrun loads them on Linux, with test/vmnetsim as
// vmnet.framework. layout_test.go has the tests that a rule of macOS forbids.
//
//	go run ./test/asmac [-packages "./internal/perclient/link ./cmd/..."] [-- FLAG OF go test...]
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
	loader, err := machrun.Build(ctx)
	if err != nil {
		return err
	}
	sim, err := vmnetsim.Build(ctx, vmnetsim.Full)
	if err != nil {
		return err
	}
	// For macOS, with the loader and the simulator where exec.sh and the loader look for them.
	env := append(os.Environ(), "GOOS=darwin", "GOARCH=amd64", "CGO_ENABLED=0", "MACHRUN="+loader, "MACHRUN_VMNET="+sim)
	for _, m := range modules {
		err = errors.Join(err, test(ctx, env, goTool, m[0], m[1], flags))
	}
	return err
}

// test runs the tests of a module's packages.
func test(ctx context.Context, env []string, goTool, module, packages string, flags []string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	args := []string{"test", "-tags", tags, "-vet=off", "-count=1", "-timeout", timeout, "-short", "-exec", filepath.Join(root, "test/asmac/exec.sh")}
	c := exec.CommandContext(ctx, goTool, slices.Concat(args, flags, strings.Fields(packages))...)
	c.Dir, c.Env, c.Stdout, c.Stderr = filepath.Join(root, module), env, os.Stdout, os.Stderr
	return c.Run()
}

// module is what the paths of packages begin with.
const module = "github.com/socket-vmnet2/socket_vmnet2"

// excluded are the packages, without the module, whose tests say nothing more of the Mac's program, and why.
var excluded = map[string]string{
	"":                   "reads the sources, and builds for every system",
	"/test/bench":        "measures this machine with C programs",
	"/test/bench/rig":    "measures this machine with C programs",
	"/test/docs":         "reads pages, and asks the programs for their usage",
	"/test/e2e":          "has virtual machines",
	"/test/lab":          "has virtual machines",
	"/test/formula":      "reads a Ruby file",
	"/test/integrations": "reads pages and scripts",
	"/test/machrun":      "is about the loader, a program of Linux",
	"/test/perf":         "measures virtual machines",
	"/test/reconnect":    "has virtual machines",
	"/test/vmnetsim":     "is about the simulator, a library of Linux that uses its locks",
}

// packages are those with tests, but for the excluded ones. A row that names no package is an error.
func packages(ctx context.Context, goTool string) ([]string, error) {
	out, err := exec.CommandContext(ctx, goTool, "list", "-tags", tags, "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	var wanted []string
	found := map[string]bool{}
	for p := range strings.FieldsSeq(string(out)) {
		name := strings.TrimPrefix(p, module)
		found[name] = true
		if excluded[name] == "" {
			wanted = append(wanted, p)
		}
	}
	for name := range excluded {
		if !found[name] {
			return nil, fmt.Errorf("the list of what is left out names %q, which has no tests", module+name)
		}
	}
	return wanted, nil
}
