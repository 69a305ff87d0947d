// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

const (
	// CheckArgument asks a program to check what it gets on stdin. It is its only argument, and to a program that does not
	// know it an unknown option.
	CheckArgument = "--upgrade-check"
	// checkName is the name under which the program is called for that: the new one, which has options of its own.
	checkName = "socket_vmnet2"
	// checkTime is how long that may take.
	checkTime = 2 * time.Second
	// checkTries is how often a program is tried that takes longer. The first time it comes from the disk, and macOS looks at a
	// program that was never started there before it lets it run.
	checkTries = 2

	// maxOutput of the child in bytes, for each of stdout and stderr. More is read and thrown away.
	maxOutput = 64 << 10
	// tail of stderr in bytes that goes into the error's text.
	tail = 600
	// maxQuestion in bytes: the state has 4 MiB at most, and grows as base64.
	maxQuestion = 16 << 20
)

// A question is what the child gets on stdin.
type question struct {
	Manifest int      `json:"manifest"` // version of the manifest that it would get
	Nonce    string   `json:"nonce"`
	Argv     []string `json:"argv"`            // the daemon's command line
	POSIXLY  bool     `json:"posixly_correct"` // whether that is in the daemon's environment: argv means something else then
	State    []byte   `json:"state"`           // content of the state file, empty if there is none
}

// An answer is what it writes to stdout.
type answer struct {
	Proof   string `json:"proof"`
	Version string `json:"version"`
}

// proof shows that a program has read the nonce and knows what to do with it.
func proof(nonce string) string {
	sum := sha256.Sum256([]byte("socket_vmnet2 upgrade check\n" + nonce))
	return hex.EncodeToString(sum[:])
}

// CheckOptions are what the new program has to understand.
type CheckOptions struct {
	Argv    []string // of the daemon
	POSIXLY bool     // POSIXLY_CORRECT is in its environment
	State   []byte   // content of its state file, empty if there is none
	// Time is checkTime if it is zero.
	Time time.Duration
}

// Check runs b as a child that only checks, and returns the version it says it has. The child has a process group of its
// own, an empty environment, no descriptors but stdin, stdout and stderr, and is killed when the time is over; then it has a
// second try. A *Refusal says why b will not do.
func Check(ctx context.Context, b *Binary, o CheckOptions) (version string, err error) {
	if o.Time == 0 {
		o.Time = checkTime
	}
	for range checkTries {
		version, err = check(ctx, b, o)
		if r, ok := errors.AsType[*Refusal](err); !ok || r.Code != CodeSlow {
			break
		}
	}
	return version, err
}

// check tries once.
func check(ctx context.Context, b *Binary, o CheckOptions) (version string, err error) {
	nonce := rand.Text()
	in, err := json.Marshal(question{Manifest: handover.Version, Nonce: nonce, Argv: o.Argv, POSIXLY: o.POSIXLY, State: o.State})
	if err != nil {
		return "", refusef(CodeFailed, "ask the new program: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, o.Time)
	defer cancel()
	c := command(limited, b.Resolved)
	c.Stdin = bytes.NewReader(in)
	stdout, stderr := &output{}, &output{}
	c.Stdout, c.Stderr = stdout, stderr
	err = c.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // somebody of its process group still has its output
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	}
	switch {
	case ctx.Err() != nil:
		return "", refusef(CodeStopping, "the daemon is being stopped: %w", ctx.Err())
	case limited.Err() != nil:
		return "", refusef(CodeSlow, "the new program %s did not answer within %v, twice%s", b.Path, o.Time, stderr.quote())
	case err != nil:
		return "", refusef(CodeCheck, "the new program %s refuses to take over, or cannot: %w%s", b.Path, err, stderr.quote())
	}
	var a answer
	if json.Unmarshal(stdout.b, &a) != nil || a.Proof != proof(nonce) || a.Version == "" {
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
	c.WaitDelay = time.Second // for those who hold its output
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

// describe says what a check has found wrong.
func describe(what string, err error) error { return fmt.Errorf("%s: %w", what, err) }
