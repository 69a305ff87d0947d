// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// consoleMark begins the line that ends a command's output on a console. A command that is echoed has it spelt out.
const consoleMark = "\x1e"

// A console is a program whose standard input and output are a shell in a virtual machine.
type console struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	errs  *record
	lines chan string // closed when the program has ended
	count int         // of commands
}

// startConsole starts the program.
func startConsole(name string, argv ...string) (*console, error) {
	c := &console{name: name, cmd: exec.Command(argv[0], argv[1:]...), errs: &record{}, lines: make(chan string)}
	c.cmd.Stderr = c.errs
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c.in = in
	go func() {
		defer close(c.lines)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadString('\n')
			c.lines <- line
			if err != nil {
				_ = c.cmd.Wait() // why it ended is in what it wrote
				return
			}
		}
	}()
	return c, nil
}

// ready waits for the shell and has it neither echo nor prompt.
func (c *console) ready(ctx context.Context) error {
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		_, err := c.run(try, "PS1= PS2=; stty -echo 2>/dev/null || :")
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

// run runs a command, which must be one line, and returns what it printed. An exit code other than 0 is an error.
func (c *console) run(ctx context.Context, command string) (string, error) {
	c.count++
	if _, err := fmt.Fprintf(c.in, "%s; printf '\\036%%s %%s\\n' %d $?\n", command, c.count); err != nil {
		return "", fmt.Errorf("%s has ended: %w%s", c.name, err, lastLines(c.errs.String()))
	}
	var out strings.Builder
	for {
		select {
		case <-ctx.Done():
			return out.String(), fmt.Errorf("%s: %s: %w", c.name, command, ctx.Err())
		case line, ok := <-c.lines:
			if !ok {
				return out.String(), fmt.Errorf("%s has ended%s", c.name, lastLines(out.String()+c.errs.String()))
			}
			text, end, marked := strings.Cut(strings.ReplaceAll(line, "\r", ""), consoleMark)
			number, code, _ := strings.Cut(strings.TrimSpace(end), " ")
			switch {
			case !marked:
				out.WriteString(text)
			case number != strconv.Itoa(c.count):
				out.Reset() // the late end of one that was given up
			case code != "0":
				return out.String() + text, fmt.Errorf("%s: %s: exit code %s%s", c.name, command, code, lastLines(out.String()+text))
			default:
				return out.String() + text, nil
			}
		}
	}
}

// stop asks the program to end, and ends it.
func (c *console) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(stopTime, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	_ = c.in.Close()
	for range c.lines { // to the end, so that the reader ends
	}
}
