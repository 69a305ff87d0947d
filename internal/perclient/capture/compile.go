// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

const (
	// maxSource is the longest filter that is compiled, in bytes.
	maxSource = 16 << 10

	// compileTime is how long tcpdump may take: names of hosts are looked up.
	compileTime = 10 * time.Second

	// wholeFrame is what accepted frames return, the longest that libpcap knows, in bytes.
	wholeFrame = 262144
)

// Tcpdump is where tcpdump is looked for: on a Mac it always is at the first. Only root can put something there.
var Tcpdump = []string{"/usr/sbin/tcpdump", "/usr/bin/tcpdump"}

// Compile has tcpdump, which is libpcap itself, make a program of a filter, which returns 0 for frames that it does not want. An empty filter is none.
func Compile(ctx context.Context, filter string, tcpdump []string) ([]instruction, error) {
	filter = strings.TrimSpace(filter)
	switch {
	case filter == "":
		return nil, nil
	case len(filter) > maxSource:
		return nil, fmt.Errorf("the filter is longer than %d bytes", maxSource)
	case strings.ContainsRune(filter, 0):
		return nil, errors.New("the filter contains a NUL")
	}
	i := slices.IndexFunc(tcpdump, func(path string) bool {
		_, err := os.Stat(path)
		return !errors.Is(err, fs.ErrNotExist)
	})
	if i < 0 {
		return nil, fmt.Errorf("a filter takes tcpdump, and there is no %s: install it (the package is tcpdump), or capture without a filter",
			strings.Join(tcpdump, " and no "))
	}
	return byTcpdump(ctx, tcpdump[i], filter)
}

// byTcpdump has tcpdump compile, which is given a capture without packets to read: it opens no interface for that, in no version.
func byTcpdump(ctx context.Context, path, filter string) ([]instruction, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, compileTime, fmt.Errorf("%s has not compiled the filter within %v: does it name hosts?", path, compileTime))
	defer cancel()
	var empty bytes.Buffer
	if err := pcapgo.NewWriter(&empty).WriteFileHeader(wholeFrame, layers.LinkTypeEthernet); err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, path, "-ddd", "-r", "-", "--", filter)
	c.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin:/usr/sbin:/sbin"}
	c.Dir = "/"
	c.Stdin = &empty
	c.WaitDelay = time.Second
	out, err := c.Output()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && complaint(string(failed.Stderr)) != "" {
		return nil, fmt.Errorf("the filter %q: %s", filter, complaint(string(failed.Stderr)))
	} else if err != nil {
		return nil, fmt.Errorf("compile the filter with %s: %w", path, err)
	}
	program, err := instructions(string(out))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return program, nil
}

// complaint is what tcpdump says is wrong.
func complaint(said string) (found string) {
	for line := range strings.Lines(said) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "tcpdump: "); ok {
			found = text
		}
	}
	return found
}

// instructions reads the output of tcpdump -ddd: the number of instructions, and a line with four numbers for each.
func instructions(out string) ([]instruction, error) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	n, err := strconv.Atoi(lines[0])
	switch {
	case err != nil || n < 1 || n != len(lines)-1:
		return nil, errors.New("it prints no program")
	case n > maxFilter:
		return nil, fmt.Errorf("the filter takes %d instructions, more than %d", n, maxFilter)
	}
	program := make([]instruction, n)
	for i := range program {
		p := make(instruction, 4)
		if _, err := fmt.Sscanln(lines[i+1], &p[0], &p[1], &p[2], &p[3]); err != nil {
			return nil, fmt.Errorf("it prints no instruction %d: %w", i, err)
		}
		program[i] = p
	}
	return program, nil
}
