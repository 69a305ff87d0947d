// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// The directions, by the names their results have.
const (
	hostToVM = "host-to-vm"
	vmToHost = "vm-to-host"
	vmToVM   = "vm-to-vm"
)

// inetRE finds the address in what "ip -4 -o addr" prints.
var inetRE = regexp.MustCompile(`\binet (\d+\.\d+\.\d+\.\d+)/`)

// slack is what iperf3 may take longer than the time it sends for.
const slack = 2 * time.Minute

// clientArgs are iperf3's arguments: those of socket_vmnet's own test, so that results compare.
func clientArgs(address string, seconds int, more ...string) []string {
	return append([]string{"--client", address, "--time", strconv.Itoa(seconds), "--json"}, more...)
}

// findIperf is the host's iperf3. macOS has one of its own that may reach virtual machines; one that was installed is refused
// by macOS 15 until the user allows it.
func findIperf() (string, error) {
	for _, name := range []string{"iperf3-darwin", "iperf3"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("iperf3 is missing: newer releases of macOS have it as iperf3-darwin; else brew install iperf3, or apt-get install iperf3")
}

// output runs a program and returns its standard output. The error of one that fails has what it wrote to standard error.
func output(ctx context.Context, argv ...string) ([]byte, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return out.Bytes(), fmt.Errorf("%s: %w%s", strings.Join(argv, " "), err, lastLines(errs.String()))
	}
	return out.Bytes(), nil
}

// lastLines is the end of what a program wrote, ready to follow an error's text.
func lastLines(s string) string {
	const most = 5
	lines := strings.Split(strings.TrimSpace(s), "\n")
	if lines[0] == "" {
		return ""
	}
	return "\n  " + strings.Join(lines[max(0, len(lines)-most):], "\n  ")
}

// iperfOutput runs iperf3 by argv for so many seconds. With --json it writes its error into the result.
func iperfOutput(ctx context.Context, seconds int, argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+slack)
	defer cancel()
	out, err := output(ctx, argv...)
	if err == nil {
		return out, nil
	}
	if _, told := lab.ParseIPerf(out); told != nil && len(out) > 0 {
		err = fmt.Errorf("%w\n  %w", err, told)
	}
	if strings.Contains(err.Error(), "No route to host") {
		err = fmt.Errorf("%w\n  since macOS 15 programs need to be allowed to reach the local network: allow this terminal in System Settings > "+
			"Privacy & Security > Local Network, or use a macOS that has iperf3-darwin", err)
	}
	return out, err
}
