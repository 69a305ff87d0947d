// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// A machine is where and of what the figures are.
type machine struct {
	CPU       string    `json:"cpu"`
	Cores     int       `json:"cores"`
	Kernel    string    `json:"kernel"`
	Date      time.Time `json:"date"`
	Commit    string    `json:"commit"` // "-dirty" follows when files have changed since
	Go        string    `json:"go"`
	GCC       string    `json:"gcc"`
	LoadBegin string    `json:"load_begin"` // load averages of 1, 5 and 15 minutes
	LoadEnd   string    `json:"load_end"`
}

func thisMachine(ctx context.Context) machine {
	gcc, _, _ := strings.Cut(output(ctx, "gcc", "--version"), "\n")
	return machine{
		CPU:       cpuModel(),
		Cores:     runtime.NumCPU(),
		Kernel:    output(ctx, "uname", "-sr"),
		Date:      time.Now().UTC().Truncate(time.Second),
		Commit:    output(ctx, "git", "describe", "--always", "--dirty", "--match="),
		Go:        runtime.Version(),
		GCC:       gcc,
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

func loadAverage() string {
	load, _ := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(load))
	return strings.Join(fields[:min(3, len(fields))], " ")
}
