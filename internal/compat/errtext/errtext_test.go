// SPDX-License-Identifier: Apache-2.0

package errtext

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"nil", nil, ""},
		{"plain errno", syscall.EADDRINUSE, "Address already in use"},
		{"path error", &fs.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}, "Permission denied"},
		{"link error", &os.LinkError{Op: "link", Old: "a", New: "b", Err: syscall.EEXIST}, "File exists"},
		{"op error", &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "Connection refused"},
		{"wrapped", fmt.Errorf("lock: %w", syscall.EAGAIN), "Resource temporarily unavailable"},
		{"flock's name for it", syscall.EWOULDBLOCK, "Resource temporarily unavailable"},
		{"loop", syscall.ELOOP, "Too many levels of symbolic links"},
		{"no errno", errors.New("bad flag"), "bad flag"},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, Of(c.err)) })
	}
}

func TestMessage(t *testing.T) {
	err := fmt.Errorf("read state: %w", &fs.PathError{Op: "open", Path: "/x", Err: syscall.EACCES})
	assert.Equal(t, "read state: open /x: Permission denied", Message(err))
	assert.Empty(t, Message(nil))
	assert.Equal(t, "x", Message(errors.New("x")))
	assert.Equal(t, "permission denied (try root)", Message(fmt.Errorf("%w (try root)", syscall.EACCES)))
}

// TestAgainstC compares every number that Go knows with the C library of this machine.
func TestAgainstC(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("gcc is required in CI: apt-get install gcc libc6-dev")
		}
		t.Skip("needs gcc to compare with the C library: apt-get install gcc libc6-dev")
	}
	if target, err := exec.Command(cc, "-dumpmachine").Output(); err == nil && runtime.GOOS == "darwin" && !strings.Contains(string(target), "apple") {
		t.Skip("darwin: its texts are libSystem's, and gcc here has another system's C library")
	}
	dir := t.TempDir()
	src := filepath.Join(dir, "e.c")
	require.NoError(t, os.WriteFile(src, []byte(`#include <stdio.h>
#include <string.h>
int main(void) { for (int i = 0; i < 140; i++) puts(strerror(i)); return 0; }
`), 0o600))
	bin := filepath.Join(dir, "e")
	out, err := exec.Command(cc, "-o", bin, src).CombinedOutput()
	require.NoError(t, err, string(out))
	cmd := exec.Command(bin)
	cmd.Env = []string{"LC_ALL=C"}
	out, err = cmd.Output()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	require.Len(t, lines, 140)
	for i, want := range lines {
		if !strings.HasPrefix(syscall.Errno(i).Error(), "errno ") {
			assert.Equal(t, want, Of(syscall.Errno(i)), "errno %d", i)
		}
	}
}
