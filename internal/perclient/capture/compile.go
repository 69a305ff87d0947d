// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"
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
func Compile(ctx context.Context, filter string, tcpdump []string) ([]Instruction, error) {
	filter = strings.TrimSpace(filter)
	switch {
	case filter == "":
		return nil, nil
	case len(filter) > maxSource:
		return nil, fmt.Errorf("the filter is longer than %d bytes", maxSource)
	case strings.ContainsRune(filter, 0):
		return nil, errors.New("the filter contains a NUL")
	}
	program, err := compile(ctx, filter, tcpdump)
	if err == nil && len(program) > maxFilter {
		return nil, fmt.Errorf("the filter takes %d instructions, more than %d", len(program), maxFilter)
	}
	return program, err
}

func compile(ctx context.Context, filter string, tcpdump []string) ([]Instruction, error) {
	for _, path := range tcpdump {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return byTcpdump(ctx, path, filter)
	}
	return nil, fmt.Errorf("a filter takes tcpdump, and there is no %s: install it (the package is tcpdump), or capture without a filter",
		strings.Join(tcpdump, " and no "))
}

// byTcpdump has tcpdump compile, which is given a capture without packets to read: it opens no interface for that, in no version.
func byTcpdump(ctx context.Context, path, filter string) ([]Instruction, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, compileTime, fmt.Errorf("%s has not compiled the filter within %v: does it name hosts?", path, compileTime))
	defer cancel()
	c := exec.CommandContext(ctx, path, "-ddd", "-r", "-", "--", filter)
	c.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin:/usr/sbin:/sbin"}
	c.Dir = "/"
	c.Stdin = bytes.NewReader(emptyCapture())
	var out, said limited
	c.Stdout, c.Stderr = &out, &said
	c.WaitDelay = time.Second
	err := c.Run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if text := complaint(said.String()); err != nil && text != "" {
		return nil, fmt.Errorf("the filter %q: %s", filter, text)
	} else if err != nil {
		return nil, fmt.Errorf("compile the filter with %s: %w", path, err)
	}
	program, err := instructions(out.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return program, nil
}

// emptyCapture is a file in pcap format, of Ethernet, without packets.
func emptyCapture() []byte {
	b := binary.LittleEndian.AppendUint32(nil, 0xa1b2c3d4)
	b = binary.LittleEndian.AppendUint16(b, 2) // version 2.4
	b = binary.LittleEndian.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...) // time zone, accuracy
	b = binary.LittleEndian.AppendUint32(b, wholeFrame)
	return binary.LittleEndian.AppendUint32(b, 1)
}

// complaint is what tcpdump says is wrong.
func complaint(said string) string {
	var found string
	for line := range strings.Lines(said) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "tcpdump: "); ok {
			found = text
		}
	}
	return found
}

// instructions reads the output of tcpdump -ddd: the number of instructions, and a line with four numbers for each.
func instructions(out string) ([]Instruction, error) {
	r := strings.NewReader(out)
	var n int
	if _, err := fmt.Fscanln(r, &n); err != nil || n < 1 || n > maxFilter {
		return nil, fmt.Errorf("it prints no program, or one of more than %d instructions", maxFilter)
	}
	program := make([]Instruction, n)
	for i := range program {
		p := &program[i]
		if _, err := fmt.Fscanln(r, &p.Op, &p.JT, &p.JF, &p.K); err != nil {
			return nil, fmt.Errorf("it prints no instruction %d: %w", i, err)
		}
	}
	if rest, _ := io.ReadAll(r); len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("it prints more than a program")
	}
	return program, nil
}

// limited keeps the beginning of what is written to it.
type limited struct{ b bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	const most = 256 << 10 // bytes; the longest program has 112 KiB
	l.b.Write(b[:min(len(b), most-l.b.Len())])
	return len(b), nil
}

func (l *limited) String() string { return l.b.String() }
