// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// unknown stands for what this system does not tell.
const unknown = "unknown"

// ThisMachine describes the machine, the source tree in the working directory and the moment. The load is that of Linux.
func ThisMachine(ctx context.Context) Machine {
	return Machine{
		CPU:       cpuModel(),
		Cores:     runtime.NumCPU(),
		OS:        runtime.GOOS,
		Kernel:    Told(ctx, "uname", "-sr"),
		Go:        runtime.Version(),
		CC:        Told(ctx, "gcc", "--version"),
		Commit:    Told(ctx, "git", "describe", "--always", "--dirty", "--match="),
		Date:      time.Now().UTC().Truncate(time.Second),
		LoadBegin: LoadAverage(),
	}
}

// Told is the first line that a program prints, "unknown" where it fails.
func Told(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return unknown
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
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

// LoadAverage is that of the last minute on Linux.
func LoadAverage() string {
	load, _ := os.ReadFile("/proc/loadavg")
	average, _, _ := strings.Cut(string(load), " ")
	return average
}
