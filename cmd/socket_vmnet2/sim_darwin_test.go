// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// onBoth are the tests of the daemon that hold for every network. The others are about the embedded network's own services
// and sizes, or about command lines.
var onBoth = []string{
	"TestPanics",
	"TestUpgradeUnderLoad",
	"TestDescribesVmnet",
	"TestUpgradeKeepsAllKinds",
	"TestGuestWithoutAddress",
	"TestOnVmnet",
}

// TestOnSimulator runs the daemon's tests once more, on the simulated vmnet, where the daemon is the Mac's program: make test.mac.
// It is a process of its own because the whole of it runs with another program.
func TestOnSimulator(t *testing.T) {
	t.Parallel()
	onSimulatorToo(t, onBoth)
}

// onSimulatorToo runs the tests of these names in a process of their own.
func onSimulatorToo(t *testing.T, names []string) {
	t.Helper()
	if os.Getenv(simulatorEnv) != "" {
		return // this is that process
	}
	lib := vmnetsim.Library(t, vmnetsim.Full)
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^("+strings.Join(names, "|")+")$", "-test.count=1", "-test.v", fmt.Sprintf("-test.short=%t", testing.Short()))
	c.Env = append(os.Environ(), simulatorEnv+"="+lib)
	out, err := c.CombinedOutput()
	for _, name := range names {
		assert.Contains(t, string(out), "--- PASS: "+name, "it did not run or failed")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, withoutPassed(string(out)))
	}
}

// withoutPassed leaves out of a test's output what says that tests began or passed.
func withoutPassed(out string) string {
	var kept strings.Builder
	for line := range strings.Lines(out) {
		if text := strings.TrimSpace(line); !strings.HasPrefix(text, "--- PASS: ") && !strings.HasPrefix(text, "=== ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
