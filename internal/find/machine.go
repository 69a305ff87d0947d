// SPDX-License-Identifier: Apache-2.0

package find

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/inherit"
)

// Times that a look at the machine may take.
const (
	connectTime   = 2 * time.Second
	processesTime = 5 * time.Second
	startTime     = time.Second // of a daemon that its service manager starts when somebody connects
)

// maxFound bounds how many sockets are taken from one place: anybody can make some in /tmp.
const maxFound = 256

// Machine is this machine as its user sees it.
func Machine() System {
	return machine{places: places(runtime.GOOS, os.Geteuid(), inherit.Getenv)}
}

type machine struct{ places []string }

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

func (m machine) Sockets() (found, looked []string) {
	for _, pattern := range m.places {
		paths, _ := filepath.Glob(pattern)
		n := 0
		for _, p := range paths {
			if fi, err := os.Stat(p); err == nil && fi.Mode().Type() == fs.ModeSocket && n < maxFound {
				found = append(found, p)
				n++
			}
		}
	}
	return found, m.places
}

func (machine) Mode(path string) (fs.FileMode, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return fi.Mode(), nil
}

func (machine) Real(path string) string {
	if p, err := filepath.Abs(path); err == nil {
		path = p
	}
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

func (machine) Connect(path string) error {
	if strings.HasPrefix(path, "@") { // else Linux takes it for a name without a file
		path = "./" + path
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectTime)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if errors.Is(err, syscall.EAGAIN) {
		return nil // somebody listens, and has much to do
	}
	if err != nil {
		return err
	}
	return c.Close()
}

func (m machine) Wait(path string) bool {
	for until := time.Now().Add(startTime); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if m.Connect(path) == nil {
			return true
		}
	}
	return false
}

func (machine) Processes() ([]Process, error) {
	ctx, cancel := context.WithTimeout(context.Background(), processesTime)
	defer cancel()
	return Processes(ctx)
}

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
