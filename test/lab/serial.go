// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// resultMark is the first byte of the line that ends a command's output on a guest's second serial port.
const resultMark = "\x1e"

// A Result is what a command in a guest gave.
type Result struct {
	// Output is standard output and standard error.
	Output string
	// Code is the exit code.
	Code int
}

// Values are the "key=value" words of the lines of the output that begin with "E2E ". The last value of a key wins. A value
// lasts up to the next " key=", so that it may be a list with spaces.
func (r Result) Values() map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(r.Output) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "E2E ")
		if !ok {
			continue
		}
		key := ""
		for word := range strings.FieldsSeq(line) {
			if k, v, ok := strings.Cut(word, "="); ok {
				key = k
				values[key] = v
			} else if key != "" {
				values[key] = strings.TrimSpace(values[key] + " " + word)
			}
		}
	}
	return values
}

// A shell runs commands in a guest through its second serial port, one at a time.
type shell struct {
	mu     sync.Mutex
	conn   net.Conn
	r      *bufio.Reader
	number int
	broken error // a command was given up: its late output would be taken for the next one's
}

func newShell(c net.Conn) *shell { return &shell{conn: c, r: bufio.NewReader(c)} }

// run runs command, which must be one line, with busybox's sh and waits for its end.
func (s *shell) run(ctx context.Context, command string) (Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return Result{}, fmt.Errorf("run %q: the guest is stuck since: %w", command, s.broken)
	}
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Now()) })
	defer stop()
	s.number++
	res, err := s.exchange(command)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		s.broken = fmt.Errorf("run %q: %w; it had printed %q", command, err, res.Output)
		return res, s.broken
	}
	return res, nil
}

func (s *shell) exchange(command string) (Result, error) {
	if _, err := fmt.Fprintf(s.conn, "%d %s\n", s.number, command); err != nil {
		return Result{}, err
	}
	var out strings.Builder
	for {
		line, err := s.r.ReadString('\n')
		head, tail, marked := strings.Cut(line, resultMark)
		out.WriteString(strings.ReplaceAll(head, "\r", ""))
		if err != nil {
			return Result{Output: out.String()}, err
		}
		if !marked {
			continue
		}
		number, code, _ := strings.Cut(strings.TrimSpace(tail), " ")
		n, err := strconv.Atoi(code)
		if err != nil || number != strconv.Itoa(s.number) {
			return Result{Output: out.String()}, fmt.Errorf("end of command %d expected, got %q", s.number, tail)
		}
		return Result{Output: out.String(), Code: n}, nil
	}
}
