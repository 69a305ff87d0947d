// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long a process may take to start or to end.
const patience = time.Minute

// A process runs in a space and does not outlive this program, however that ends.
type process struct {
	cmd    *exec.Cmd
	stdout io.Reader // nil unless asked for
	stderr *tail
	ended  chan struct{} // closed when it has ended
	err    error         // how, once ended is closed
}

// A job is what a process is to do.
type job struct {
	program string
	args    []string
	out     *bytes.Buffer // takes its standard output, complete once it has ended; nil: nobody does
	piped   bool          // its standard output is read by ready
}

// start runs a program in the namespace.
func (s *space) start(j job) (*process, error) {
	p := &process{cmd: exec.Command(j.program, j.args...), stderr: &tail{}, ended: make(chan struct{})}
	p.cmd.Stderr = p.stderr
	if j.out != nil {
		p.cmd.Stdout = j.out
	}
	// A group of its own: an interrupt from the keyboard is for this program, which then ends its processes.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	var reader, writer *os.File
	var err error
	if j.piped {
		if reader, writer, err = os.Pipe(); err != nil {
			return nil, fmt.Errorf("start %s: %w", j.program, err)
		}
		p.cmd.Stdout, p.stdout = writer, reader
	}
	s.run(func() { err = p.cmd.Start() })
	if j.piped {
		_ = writer.Close()
	}
	if err != nil {
		p.release()
		return nil, fmt.Errorf("start %s: %w", j.program, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (p *process) name() string { return filepath.Base(p.cmd.Path) }

// ready waits for a line on standard output.
func (p *process) ready() error {
	line := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(p.stdout).ReadString('\n')
		line <- err
	}()
	select {
	case err := <-line:
		if err != nil {
			<-p.ended
			return p.failed("has not started")
		}
		return nil
	case <-time.After(patience):
		p.kill()
		return p.failed(fmt.Sprintf("is not ready after %v", patience))
	}
}

// failed says what happened to the process, with the last it wrote.
func (p *process) failed(what string) error {
	text := p.name() + " " + what
	if said := strings.TrimSpace(p.stderr.String()); said != "" {
		text += "; its last lines:\n" + said
	}
	return errors.New(text)
}

// alive returns an error when the process has ended by itself.
func (p *process) alive() error {
	select {
	case <-p.ended:
		return p.failed(fmt.Sprintf("has ended by itself (%v)", p.err))
	default:
		return nil
	}
}

// wait returns when the process has ended, with an error unless it has done so well, in time, and before ctx is done.
func (p *process) wait(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-p.ended:
		if p.err != nil {
			return p.failed(fmt.Sprintf("failed (%v)", p.err))
		}
		return nil
	case <-ctx.Done():
		p.kill()
		return p.failed(fmt.Sprintf("was ended after %v (%v)", limit, ctx.Err()))
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
	p.release()
}

func (p *process) release() {
	if c, ok := p.stdout.(io.Closer); ok {
		_ = c.Close()
	}
}

// A tail keeps the last of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// tailSize is how much, in bytes.
const tailSize = 2048

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	t.buf = t.buf[max(0, len(t.buf)-tailSize):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// until calls ok until it is true, and returns false when that takes too long or ctx is done.
func until(ctx context.Context, ok func() bool) bool {
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if ok() {
			return true
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return false
		}
	}
}
