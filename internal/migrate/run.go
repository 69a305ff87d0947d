// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// maxOutput bounds what a program may say, in bytes.
const maxOutput = 8 << 20

// RunProgram is the Runner of a machine that is not staged.
func RunProgram(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // system programs, and programs that only root can change
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"}
	cmd.WaitDelay = time.Second
	out := &limited{}
	cmd.Stdout = out
	err := cmd.Run()
	return out.Bytes(), err
}

// limited keeps the begin of what is written to it.
type limited struct{ bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	if room := maxOutput - l.Len(); room > 0 {
		l.Buffer.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}

// run asks a program, which may take this long.
func (f *finder) run(limit time.Duration, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(f.ctx, limit)
	defer cancel()
	out, err := f.Run(ctx, name, args...)
	if err != nil && ctx.Err() != nil {
		return out, fmt.Errorf("gave no answer within %v", limit)
	}
	return out, err
}

// notThere tells whether a program failed because the machine has none of that name.
func notThere(err error) bool { return errors.Is(err, exec.ErrNotFound) }
