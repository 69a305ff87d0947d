// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// A consumption is what a process has needed since its start. A pointer is nil where the system does not tell.
type consumption struct {
	cpu        float64 // seconds, user and system
	resolution float64 // of cpu, seconds

	voluntary, involuntary *uint64 // context switches of the threads that are there
	residentKiB, anonKiB   *uint64
	source                 string
}

// consumed asks the system about process pid.
func (s *setting) consumed(ctx context.Context, pid int) (consumption, error) {
	if s.goos == "linux" {
		return procConsumption(pid)
	}
	return psConsumption(ctx, pid)
}

// psResolution is that of ps on macOS.
const psResolution = 0.01

// psConsumption asks ps, which is the one program of macOS that tells an ordinary user about processes of root. It tells no
// context switches there.
func psConsumption(ctx context.Context, pid int) (consumption, error) {
	out, err := output(ctx, "ps", "-o", "time=,rss=", "-p", strconv.Itoa(pid))
	if err != nil {
		return consumption{}, err
	}
	fields := strings.Fields(string(out))
	if len(fields) != 2 {
		return consumption{}, fmt.Errorf("ask ps about process %d: it says %q", pid, out)
	}
	cpu, err := parseTime(fields[0])
	if err != nil {
		return consumption{}, fmt.Errorf("ask ps about process %d: %w", pid, err)
	}
	resident, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return consumption{}, fmt.Errorf("ask ps about process %d: %w", pid, err)
	}
	return consumption{cpu: cpu, resolution: psResolution, residentKiB: &resident, source: "ps"}, nil
}

// parseTime reads a time as ps writes it, [[days-]hours:]minutes:seconds, and returns seconds.
func parseTime(s string) (float64, error) {
	days, rest, ok := strings.Cut(s, "-")
	if !ok {
		days, rest = "0", s
	}
	parts := strings.Split(rest, ":")
	sum, err := strconv.ParseFloat(days, 64)
	hours := max(0, 3-len(parts)) // of the three places, those that are not written
	if len(parts) < 2 || len(parts) > 3 || err != nil {
		return 0, fmt.Errorf("%q is no time", s)
	}
	sum *= 24 * 60 * 60
	for i, p := range parts {
		v, err := strconv.ParseFloat(strings.Replace(p, ",", ".", 1), 64) // a comma in some languages
		if err != nil || v < 0 {
			return 0, fmt.Errorf("%q is no time", s)
		}
		sum += v * []float64{60 * 60, 60, 1}[hours+i]
	}
	return sum, nil
}
