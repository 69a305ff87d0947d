// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Process is a program started by a Lab, in a process group of its own.
type Process struct {
	// Name is what messages call it.
	Name string

	cmd  *exec.Cmd
	out  *Output
	done chan struct{} // closed when it has ended and all its output is read
	err  error         // valid after done
}

// Start starts a program beside daemons and guests. It ends with the Lab at the latest.
func (l *Lab) Start(name string, argv ...string) (*Process, error) {
	return l.start(command{name: name, argv: argv})
}

// A command is what to start: env is added to the environment, stdin stays the caller's,
// line is as of Options.
type command struct {
	name      string
	argv, env []string
	stdin     *os.File
	line      func(text string)
}

// start starts c. Standard output and standard error both go to one Output.
func (l *Lab) start(c command) (*Process, error) {
	name := c.name
	out := &Output{more: make(chan struct{})}
	p := &Process{Name: name, cmd: exec.Command(c.argv[0], c.argv[1:]...), out: out, done: make(chan struct{})}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.cmd.Env = append(append(os.Environ(), "XDG_STATE_HOME="+l.Path("xdg-state")), c.env...)
	if c.stdin != nil {
		p.cmd.Stdin = c.stdin
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	p.cmd.SysProcAttr = ownGroup()
	err = p.cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.watch(r, c.line)
	l.mu.Lock()
	l.procs = append(l.procs, p)
	l.mu.Unlock()
	return p, nil
}

func (p *Process) watch(r io.ReadCloser, line func(text string)) {
	in := bufio.NewReaderSize(r, 64<<10)
	for line != nil {
		text, err := in.ReadString('\n')
		_, _ = io.WriteString(p.out, text)
		if err != nil {
			break
		}
		line(strings.TrimSuffix(text, "\n"))
	}
	_, _ = io.Copy(p.out, in) // ends when the last holder of the pipe has ended
	r.Close()
	p.err = p.cmd.Wait()
	p.out.end()
	close(p.done)
}

// Pid is the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Output is everything the process has printed.
func (p *Process) Output() *Output { return p.out }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is the exit code, -1 when the process was ended by a signal or has not ended.
func (p *Process) ExitCode() int {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	default:
		return -1
	}
}

// Signal sends s to the process alone.
func (p *Process) Signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// Wait waits until the process has ended or ctx has, and returns ctx's error in that case.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for %s to end: %w", p.Name, ctx.Err())
	}
}

// Stop sends s to the process and returns how long it took to end.
func (p *Process) Stop(ctx context.Context, s os.Signal) (time.Duration, error) {
	start := time.Now()
	if err := p.Signal(s); err != nil {
		return 0, err
	}
	if err := p.Wait(ctx); err != nil {
		return 0, err
	}
	return time.Since(start), nil
}

// Kill kills the process and its group and waits for them.
func (p *Process) Kill() {
	killGroup(p.cmd.Process)
	<-p.done
}

// A Use is what a process uses.
type Use struct {
	Files   int // descriptors
	Threads int
	RSS     int // resident memory, KiB
	Anon    int // of that anonymous, KiB
	CPU     time.Duration
}

// An Output collects what a process prints. All methods may be called at any time.
type Output struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	more  chan struct{} // closed and replaced whenever something was added
	ended bool
}

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(b)
	close(o.more)
	o.more = make(chan struct{})
	return len(b), nil
}

func (o *Output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	close(o.more)
	o.more = make(chan struct{})
}

// String is everything so far, with the carriage returns of serial consoles removed.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.ReplaceAll(o.buf.String(), "\r", "")
}

// Tail is the last n lines, for error messages.
func (o *Output) Tail(n int) string {
	lines := strings.Split(strings.TrimSpace(o.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// ErrEnded reports that a process ended before it printed what was waited for.
var ErrEnded = errors.New("process ended")

// WaitFor waits until a whole line that contains text has been printed and returns that line. It returns ErrEnded when
// the process ends first.
func (o *Output) WaitFor(ctx context.Context, text string) (string, error) {
	for {
		o.mu.Lock()
		more, ended := o.more, o.ended
		o.mu.Unlock()
		for line := range strings.Lines(o.String()) {
			if whole, ok := strings.CutSuffix(line, "\n"); ok && strings.Contains(whole, text) {
				return whole, nil
			}
		}
		if ended {
			return "", fmt.Errorf("wait for %q: %w", text, ErrEnded)
		}
		select {
		case <-more:
		case <-ctx.Done():
			return "", fmt.Errorf("wait for %q: %w", text, ctx.Err())
		}
	}
}

// Poll calls f every 20 ms until it returns nil or ctx ends; the last error of f is then part of the error.
func Poll(ctx context.Context, f func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// DropInherited keeps what this process was started with open, but for the standard streams, from all that it starts: with
// descriptor 3 taken socket_vmnet_client has another one for QEMU, and a daemon would keep a caller's pipe open. Go's own
// descriptors are not passed on anyway.
func DropInherited() {
	open, _ := os.ReadDir("/dev/fd") // on Linux and macOS
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
