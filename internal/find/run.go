// SPDX-License-Identifier: Apache-2.0

package find

import (
	"bytes"
	"context"
	"os/exec"
	"time"
)

// maxOutput bounds what a program may say, in bytes.
const maxOutput = 8 << 20

// RunProgram is the Runner of this machine.
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
