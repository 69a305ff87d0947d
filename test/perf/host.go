// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// thisMachine tells where the measurement is made, and of which commit.
func (s *setting) thisMachine(ctx context.Context) rounds.Machine {
	return rounds.Machine{
		CPU: s.cpu(ctx), Cores: runtime.NumCPU(), OS: s.goos, Kernel: told(ctx, "uname", "-sr"), Go: runtime.Version(),
		Commit: told(ctx, "git", "-C", s.root, "describe", "--always", "--dirty", "--match="),
		Date:   time.Now().UTC().Truncate(time.Second), LoadBegin: s.loadAverage(ctx),
	}
}

// told is what a program prints, "unknown" where it fails.
func told(ctx context.Context, argv ...string) string {
	out, err := output(ctx, argv...)
	if err != nil {
		return "unknown"
	}
	return cmp.Or(strings.TrimSpace(string(out)), "unknown")
}

func (s *setting) cpu(ctx context.Context) string {
	if s.goos == "darwin" {
		return told(ctx, "sysctl", "-n", "machdep.cpu.brand_string")
	}
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// loadAverage is that of the last minute.
func (s *setting) loadAverage(ctx context.Context) string {
	text := ""
	if s.goos == "darwin" {
		text = strings.Trim(told(ctx, "sysctl", "-n", "vm.loadavg"), "{} ")
	} else {
		b, _ := os.ReadFile("/proc/loadavg")
		text = string(b)
	}
	first, _, _ := strings.Cut(text, " ")
	return first
}
