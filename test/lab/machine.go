// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// A Machine is where and when something was measured, and of which commit.
type Machine struct {
	CPU       string    `json:"cpu"`
	Cores     int       `json:"cores"`
	Kernel    string    `json:"kernel"`
	Go        string    `json:"go"`
	CC        string    `json:"cc"`
	Commit    string    `json:"commit"` // "-dirty" follows where files had changed since
	Date      time.Time `json:"date"`
	LoadBegin string    `json:"load_begin"` // average of the last minute
	LoadEnd   string    `json:"load_end"`
}

// ThisMachine is this one now, all but LoadEnd.
func ThisMachine(ctx context.Context) Machine {
	m := Machine{
		CPU: runtime.GOARCH, Cores: runtime.NumCPU(), Kernel: Told(ctx, "uname", "-sr"), Go: runtime.Version(), CC: Told(ctx, "gcc", "--version"),
		Commit: Told(ctx, "git", "describe", "--always", "--dirty", "--match="), Date: time.Now().UTC().Truncate(time.Second),
		LoadBegin: LoadAverage(),
	}
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	return m
}

// Told is the first line that a program prints, "unknown" where it fails.
func Told(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

// LoadAverage is that of the last minute, empty where it is not known.
func LoadAverage() string {
	load, _ := os.ReadFile("/proc/loadavg")
	last, _, _ := strings.Cut(string(load), " ")
	return last
}
