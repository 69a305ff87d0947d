// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// consoleMark begins the line that ends a command's output on a console. A command that is echoed has it spelt out.
const consoleMark = "\x1e"

// A record keeps the output of a process that runs beside us.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(b)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

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
	out, outErr := c.cmd.StdoutPipe()
	if err = errors.Join(err, outErr); err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c.in = in
	go func() {
		defer close(c.lines)
		for r := bufio.NewScanner(out); r.Scan(); {
			c.lines <- strings.ReplaceAll(r.Text(), "\r", "")
		}
		_ = c.cmd.Wait() // why it ended is in what it wrote
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
	for out := ""; ; {
		select {
		case <-ctx.Done():
			return out, fmt.Errorf("%s: %s: %w", c.name, command, ctx.Err())
		case line, ok := <-c.lines:
			text, end, marked := strings.Cut(line, consoleMark)
			number, code, _ := strings.Cut(end, " ")
			switch {
			case !ok:
				return out, fmt.Errorf("%s has ended%s", c.name, lastLines(out+c.errs.String()))
			case !marked:
				out += text + "\n"
			case number != strconv.Itoa(c.count):
				out = "" // the late end of one that was given up
			case code != "0":
				return out + text, fmt.Errorf("%s: %s: exit code %s%s", c.name, command, code, lastLines(out+text))
			default:
				return out + text, nil
			}
		}
	}
}

// stop ends the program.
func (c *console) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(stopTime, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	_ = c.in.Close()
	for range c.lines { // to the end, so that the reader ends
	}
}
