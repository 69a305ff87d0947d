// SPDX-License-Identifier: Apache-2.0

package find

import (
	"bytes"
	"context"
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
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
)

// Times that a look at the machine may take.
const (
	connectTime   = 2 * time.Second
	processesTime = 5 * time.Second
	startTime     = time.Second // of a daemon that its service manager starts at the first connection
	askTime       = 5 * time.Second
)

// A System is what is looked at, and by which means. Machine is the one that this program runs on; a test, or --root, stages another.
type System struct {
	Root    string   // a staged root directory; empty: the machine itself
	GOOS    string   // of that system
	Homes   []string // home directories, below Root
	Places  []string // patterns of the paths where daemons have their sockets
	Program string   // the socket_vmnet2 that runs this
	Version string   // of it

	// A staged system has none of these, unless they are recorded.
	Env       func(key string) string
	Run       runner
	Processes func(context.Context) ([]Process, error)
	Dial      func(ctx context.Context, network, address string) (net.Conn, error)
}

// A runner runs a program to its end and returns what it wrote to its standard output.
type runner func(ctx context.Context, name string, args ...string) ([]byte, error)

// Machine is this machine as its user sees it.
func Machine() System {
	return System{
		GOOS: runtime.GOOS, Places: places(runtime.GOOS, os.Geteuid(), inherit.Getenv),
		Env: os.Getenv, Run: RunProgram, Processes: processes, Dial: new(net.Dialer).DialContext,
	}
}

// places are patterns of sockets' paths: those of socket_vmnet, Lima, Homebrew, Colima, of our services, and of try.
func places(goos string, euid int, env func(string) string) []string {
	const brew = "/var/run/socket_vmnet*"
	list := []string{"/var/run/socket_vmnet*"}
	if goos == "darwin" {
		list = append(list, "/private/var/run/lima/socket_vmnet.*", "/opt/homebrew"+brew, "/usr/local"+brew)
	} else {
		list = append(list, "/run/socket_vmnet2/*", "/home/linuxbrew/.linuxbrew"+brew)
	}
	if dir := env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && goos != "darwin" && euid != 0 {
		list = append(list, filepath.Join(dir, "socket_vmnet2/*"))
	}
	if home := env("HOME"); filepath.IsAbs(home) {
		list = append(list, filepath.Join(home, ".socket_vmnet2/*"))
		if goos == "darwin" {
			list = append(list, filepath.Join(home, ".colima/*/daemon/vmnet.sock"))
		}
	}
	return append(list, "/tmp/socket_vmnet2-try-*/sock")
}

// maxFound bounds how many sockets are taken from one place: any user can make some in /tmp.
const maxFound = 256

// Controlled are the sockets at the usual places that have a control socket beside them.
func (s System) Controlled() (found []string) {
	for _, pattern := range s.Places {
		paths, _ := filepath.Glob(filepath.Join(s.Root, pattern))
		n := 0
		for _, p := range paths {
			p = strings.TrimPrefix(p, s.Root)
			fi, err := s.Stat(p)
			_, cerr := s.Stat(ControlOf(p, ""))
			if err == nil && fi.Mode().Type() == fs.ModeSocket && n < maxFound && (cerr == nil || errors.Is(cerr, fs.ErrPermission)) {
				found = append(found, p)
				n++
			}
		}
	}
	return found
}

// Staged tells whether another system than the machine itself is looked at.
func (s System) Staged() bool { return s.Root != "" }

// Getenv is a variable of the environment.
func (s System) Getenv(key string) string {
	if s.Env == nil {
		return ""
	}
	return s.Env(key)
}

// maxOutput bounds what a program may say, in bytes.
const maxOutput = 8 << 20

// RunProgram is the runner of this machine.
func RunProgram(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // system programs, and programs that only root can change
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	// What it has started ends with it: a group of its own, which is killed as a whole.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out, complaint limited
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	if text := Clean(strings.TrimSpace(complaint.kept.String())); err != nil && text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
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
