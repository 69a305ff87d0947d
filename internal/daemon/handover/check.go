// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

const (
	// CheckArgument asks a program to check what it gets on stdin. It is its only argument, and to a program that does not
	// know it an unknown option.
	CheckArgument = "--upgrade-check"
	// checkName is the name under which the program is called for that: the new one, which has options of its own.
	checkName = "socket_vmnet2"
	// CheckTime is how long that may take. The first time a program comes from the disk, and macOS looks at one that was never started
	// there before it lets it run.
	CheckTime = 4 * time.Second

	// maxOutput of the child in bytes, for each of stdout and stderr. More is read and thrown away.
	maxOutput = 64 << 10
	// tail of stderr in bytes that goes into the error's text.
	tail = 600
)

// A Question is what the new program has to understand. It gets it on stdin.
type Question struct {
	Argv    []string `json:"argv"`            // the daemon's command line
	POSIXLY bool     `json:"posixly_correct"` // POSIXLY_CORRECT is in the daemon's environment: argv means something else then
	State   []byte   `json:"state"`           // content of the state file, empty if there is none

	// Check fills these in.
	Manifest int    `json:"manifest"` // version of the manifest that it would get
	Nonce    string `json:"nonce"`
}

// An answer is what it writes to stdout.
type answer struct {
	Proof   string `json:"proof"` // the nonce: the program has read it and knows what to do with it
	Version string `json:"version"`
}

// Check runs b as a child that only checks, and returns the version it says it has. The child has a process group of its
// own, an empty environment, no descriptors but stdin, stdout and stderr, and is killed when the time is over. A *Refusal says why b will
// not do.
func Check(ctx context.Context, b *binary, q Question, limit time.Duration) (version string, err error) {
	q.Manifest, q.Nonce = manifestVersion, rand.Text()
	in, err := json.Marshal(q)
	if err != nil {
		return "", refusef(CodeFailed, "ask the new program: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := command(limited, b.Resolved)
	c.Stdin = bytes.NewReader(in)
	stdout, stderr := &output{}, &output{}
	c.Stdout, c.Stderr = stdout, stderr
	err = c.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // another one of its process group still has its output
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	}
	switch {
	case ctx.Err() != nil:
		return "", refusef(CodeStopping, "the daemon is being stopped: %w", ctx.Err())
	case limited.Err() != nil:
		return "", refusef(CodeSlow, "the new program %s did not answer within %v%s", b.Path, limit, stderr.quote())
	case err != nil:
		return "", refusef(CodeCheck, "the new program %s refuses to take over, or cannot: %w%s", b.Path, err, stderr.quote())
	}
	var a answer
	if json.Unmarshal(stdout.b, &a) != nil || a.Proof != q.Nonce || a.Version == "" {
		return "", refusef(CodeCheck, "%s is not a program that can take over: it did not answer as one%s", b.Path, stderr.quote())
	}
	return printable.Line(a.Version, 100), nil
}

// command is the child.
func command(ctx context.Context, path string) *exec.Cmd {
	c := exec.CommandContext(ctx, path)
	c.Args = []string{filepath.Join(filepath.Dir(path), checkName), CheckArgument}
	c.Env = []string{} // not nil, which is ours
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second // for those that hold its output
	return c
}

// output keeps the first bytes of what a child writes, and their end for messages.
type output struct{ b, last []byte }

func (o *output) Write(p []byte) (int, error) {
	o.b = append(o.b, p[:min(len(p), maxOutput-len(o.b))]...)
	o.last = append(o.last, p[max(0, len(p)-tail):]...)
	o.last = o.last[max(0, len(o.last)-tail):]
	return len(p), nil
}

// quote is the end of the output for a message, empty if there is none.
func (o *output) quote() string {
	text := strings.Join(strings.Fields(printable.Line(string(o.last), len(o.last))), " ")
	if text == "" {
		return ""
	}
	return "; it says: " + text
}

var errNoQuestion = errors.New("read what to check: no question was asked; the option is for a daemon that is being upgraded")

// Answer is check mode: it reads the question of the running daemon from in and writes the answer of this program, which has that
// version, to out. An error, as understands may return one, means that this program cannot take over; the caller says why on stderr and
// exits with 1.
func Answer(in io.Reader, out io.Writer, version string, understands func(*Question) error) error {
	var q Question
	switch err := json.NewDecoder(in).Decode(&q); {
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("read what to check: %w", err)
	case q.Nonce == "":
		return errNoQuestion
	case q.Manifest != manifestVersion:
		return fmt.Errorf("the running daemon hands over with version %d of the manifest, this program reads version %d: stop and start it",
			q.Manifest, manifestVersion)
	case len(q.Argv) == 0:
		return errors.New("read what to check: no command line")
	}
	if err := understands(&q); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(answer{Proof: q.Nonce, Version: version})
}
