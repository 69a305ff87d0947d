// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// cpuResolution is that of ps on macOS and of /proc on Linux, in seconds.
const cpuResolution = 0.01

// consumed is the processor time, user and system, that process pid has needed since its start: by /proc on Linux, by ps on
// macOS, which is the one program there that tells an ordinary user about processes of root.
func (p *perf) consumed(ctx context.Context, pid int) (seconds float64, err error) {
	if pid == 0 {
		return 0, errors.New("its process is not known")
	}
	if p.goos == "linux" {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		return parseStat(string(text))
	}
	text, err := output(ctx, "ps", "-o", "time=", "-p", strconv.Itoa(pid))
	if err != nil {
		return 0, err
	}
	return parsePS(string(text))
}

// parseStat reads /proc/PID/stat: the name of the program may have spaces, what follows it has none.
func parseStat(text string) (float64, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const user, system = 11, 12 // counted from the state, which follows the name
	if len(fields) <= system {
		return 0, fmt.Errorf("/proc says %q", text)
	}
	a, err := strconv.ParseUint(fields[user], 10, 64)
	b, errB := strconv.ParseUint(fields[system], 10, 64)
	return float64(a+b) * cpuResolution, errors.Join(err, errB)
}

// parsePS reads what ps prints: minutes:seconds, with hours in front on some systems.
func parsePS(text string) (seconds float64, err error) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), ":") {
		v, err := strconv.ParseFloat(strings.Replace(part, ",", ".", 1), 64) // a comma in some languages
		if err != nil {
			return 0, fmt.Errorf("ps says %q: %w", text, err)
		}
		seconds = seconds*60 + v
	}
	return seconds, nil
}
