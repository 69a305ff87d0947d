// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// thisMachine is where and of what the figures are.
func thisMachine(ctx context.Context) rounds.Machine {
	gcc, _, _ := strings.Cut(output(ctx, "gcc", "--version"), "\n")
	return rounds.Machine{
		CPU:       cpuModel(),
		Cores:     runtime.NumCPU(),
		OS:        runtime.GOOS,
		Kernel:    output(ctx, "uname", "-sr"),
		Go:        runtime.Version(),
		CC:        gcc,
		Commit:    output(ctx, "git", "describe", "--always", "--dirty", "--match="),
		Date:      time.Now().UTC().Truncate(time.Second),
		LoadBegin: loadAverage(),
	}
}

// output is what a command prints, or "unknown".
func output(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// loadAverage is that of the last minute.
func loadAverage() string {
	load, _ := os.ReadFile("/proc/loadavg")
	average, _, _ := strings.Cut(string(load), " ")
	return average
}
