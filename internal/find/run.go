// SPDX-License-Identifier: Apache-2.0

package find

import (
	"bytes"
	"context"
	"os/exec"
	"syscall"
	"time"
)

// maxOutput bounds what a program may say, in bytes.
const maxOutput = 8 << 20

// RunProgram is the Runner of this machine.
func RunProgram(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // system programs, and programs that only root can change
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"}
	// What it has started ends with it: a group of its own, which is killed as a whole.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out := &limited{}
	cmd.Stdout = out
	err := cmd.Run()
	return out.kept.Bytes(), err
}

// limited keeps the begin of what is written to it. It is no bytes.Buffer: io.Copy would fill that without Write.
type limited struct{ kept bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	if room := maxOutput - l.kept.Len(); room > 0 {
		l.kept.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}
