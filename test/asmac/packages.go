// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// module is what the paths of packages begin with.
const module = "github.com/socket-vmnet2/socket_vmnet2"

// excluded are the packages, without the module, whose tests say nothing more of the Mac's program, and why.
var excluded = map[string]string{
	"":                   "reads the sources, and builds for every system",
	"/internal/manual":   "makes manual pages, and asks linters about them",
	"/test/bench":        "measures this machine with C programs",
	"/test/bench/rig":    "measures this machine with C programs",
	"/test/docs":         "reads pages, and asks the programs for their usage",
	"/test/e2e":          "has virtual machines",
	"/test/lab":          "has virtual machines",
	"/test/formula":      "reads a Ruby file",
	"/test/integrations": "reads pages and scripts",
	"/test/asmac":        "is about the runner, a program of Linux",
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
