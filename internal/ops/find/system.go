// SPDX-License-Identifier: Apache-2.0

package find

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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

// controlled are the sockets at the usual places that have a control socket beside them.
func (s System) controlled() (found []string) {
	for _, pattern := range s.Places {
		paths, _ := filepath.Glob(filepath.Join(s.Root, pattern))
		for _, p := range paths {
			p = strings.TrimPrefix(p, s.Root)
			fi, err := s.Stat(p)
			_, cerr := s.Stat(controlOf(p, ""))
			if err == nil && fi.Mode().Type() == fs.ModeSocket && (cerr == nil || errors.Is(cerr, fs.ErrPermission)) {
				found = append(found, p)
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

// Output runs a program of s, which has a limited time, and returns what it says.
func (s System) Output(ctx context.Context, name string, args ...string) (string, error) {
	if s.Run == nil {
		return "", errors.New("programs are not run on a staged system")
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	out, err := s.Run(ctx, name, args...)
	if err != nil && ctx.Err() != nil {
		return "", fmt.Errorf("%s gave no answer within %v", name, askTime)
	}
	return string(out), err
}

// Limits on what is read. A Lima template with scripts is the largest of the files.
const (
	maxFile    = 256 << 10 // bytes
	maxEntries = 1000      // of a directory
	maxLinks   = 40        // on the way to a file, as the kernel's
)

// Resolve follows the links on the way to path as the staged system would, and returns a path below Root without any, with an error as far
// as it exists. os.Root refuses links that are absolute, which staged systems have.
func (s System) Resolve(path string) (string, error) {
	at, rest := "/", path
	for links := 0; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		next := filepath.Join(at, name) // at is without links, so this is right for ".." as well
		fi, err := os.Lstat(filepath.Join(s.Root, next))
		if err == nil && fi.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		to, _ := os.Readlink(filepath.Join(s.Root, next))
		if links++; err == nil && links > maxLinks {
			err = syscall.ELOOP
		}
		if err != nil {
			return filepath.Join(next, rest), err
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = to + "/" + rest
	}
	return at, nil
}

// Real is path without links, as far as it exists.
func (s System) Real(path string) string {
	at, _ := s.Resolve(path)
	return at
}

// Stat tells of the file that path leads to.
func (s System) Stat(path string) (fs.FileInfo, error) {
	at, err := s.Resolve(path)
	if err != nil {
		return nil, err
	}
	return os.Lstat(filepath.Join(s.Root, at))
}

// Owner is the user and the group that a file belongs to.
func Owner(fi fs.FileInfo) (uid, gid int) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1
	}
	return int(st.Uid), int(st.Gid)
}

// openAt opens what path leads to. It waits for nothing, and makes nothing ours: it may be a pipe or a terminal.
func (s System) openAt(path string, flags int) (*os.File, error) {
	at, err := s.Resolve(path)
	if err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(s.Root, at), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_NOFOLLOW|flags, 0)
}

// open opens the regular file that path leads to.
func (s System) open(path string) (*os.File, fs.FileInfo, error) {
	file, err := s.openAt(path, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := file.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("is not a regular file but %s", fi.Mode().Type())
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, fi, nil
}

// ReadFile returns the content of a regular file of at most limit bytes.
func (s System) ReadFile(path string, limit int) ([]byte, error) {
	file, _, err := s.open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if len(b) > limit {
		return nil, fmt.Errorf("is larger than %d KiB, so it was not read", limit>>10)
	}
	return b, err
}

// Absent tells that there is no such file.
func Absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// SamePath tells whether two paths are one on macOS, where /var, /etc and /tmp are links into /private.
func SamePath(a, b string) bool { return a != "" && public(a) == public(b) }

// Same tells whether two paths are one, or lead to the same.
func (s System) Same(a, b string) bool { return SamePath(a, b) || s.Real(a) == s.Real(b) }

// public is path without the /private of macOS.
func public(path string) string {
	for _, dir := range []string{"/var/", "/etc/", "/tmp/"} {
		if rest, ok := strings.CutPrefix(path, "/private"); ok && strings.HasPrefix(rest, dir) {
			return rest
		}
	}
	return path
}
