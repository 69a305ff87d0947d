// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// machine describes where the measurements are made.
func (l *lab) machine(ctx context.Context) rounds.Machine {
	cc := firstLine(output(ctx, "gcc", "--version"))
	return rounds.Machine{
		CPU: cpuModel(), Cores: runtime.NumCPU(), OS: runtime.GOOS, Kernel: output(ctx, "uname", "-sr"), Go: runtime.Version(), CC: cc,
		Commit:    output(ctx, "git", "describe", "--always", "--dirty", "--match="),
		Date:      time.Now().UTC().Truncate(time.Second),
		LoadBegin: loadAverage(),
		Programs:  l.programs(ctx),
	}
}

// programs are the versions of those that decide what is measured.
func (l *lab) programs(ctx context.Context) []string {
	all := []string{firstLine(output(ctx, l.iperf3, "--version"))}
	if filepath.IsAbs(l.o.Gvproxy) { // it was needed and found
		all = append(all, firstLine(output(ctx, l.o.Gvproxy, "-version")))
	}
	return all
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
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
	one, _, _ := strings.Cut(string(load), " ")
	return one
}
