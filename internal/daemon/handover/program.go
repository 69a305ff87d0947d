// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// A code tells a program why an upgrade was refused.
type code string

// The reasons.
const (
	// codeUntrusted: another user could change the new program.
	codeUntrusted code = "untrusted"
	// codeUnusable: there is not a program that can be run.
	codeUnusable code = "unusable"
	// CodeCheck: the new program was tried, and failed.
	CodeCheck code = "check_failed"
	// CodeSlow: the new program was tried, and did not answer in time.
	CodeSlow code = "check_timeout"
	// CodeStopping: the daemon is being stopped.
	CodeStopping code = "stopping"
	// CodeFailed: a step of the daemon itself failed. It goes on as it was.
	CodeFailed code = "failed"
)

// A Refusal is why there was no upgrade: what happened, and what to do. The daemon goes on as it was.
type Refusal struct {
	Code code
	error
}

// Unwrap is what errors.Is and errors.As look at.
func (r *Refusal) Unwrap() error { return r.error }

func refusef(code code, format string, args ...any) error {
	return &Refusal{code, fmt.Errorf(format, args...)}
}

// StartPath is the absolute path of the program that this process was started from, whose next version an upgrade runs. It
// is asked at the start: later the file may have been replaced, and the working directory be another one.
//
// argv[0] comes first, since it may be a link that the next installation leads elsewhere, while the system may know the
// link's target only. But any program may have put anything into argv[0], so it counts only if it leads to the very file that
// runs.
func StartPath(argv0 string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the program's own path: %w", err)
	}
	asked, err := exec.LookPath(argv0)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return self, nil
	}
	if asked, err = filepath.Abs(asked); err != nil {
		return self, nil
	}
	there, err := os.Stat(asked)
	running, rerr := os.Stat(self) // it may have been replaced or removed already: the path is what is left
	if err != nil || rerr != nil || !os.SameFile(there, running) {
		return self, nil
	}
	return asked, nil
}

// follow is where the next version of path is. Homebrew installs each one into a directory of its own,
// PREFIX/Cellar/NAME/VERSION, to the current one of which PREFIX/opt/NAME is a link.
func follow(path string) string {
	parts := strings.Split(path, "/")
	for i := len(parts) - 5; i > 0; i-- {
		if parts[i] != "Cellar" {
			continue
		}
		opt := strings.Join(append([]string{strings.Join(parts[:i], "/"), "opt", parts[i+1]}, parts[i+3:]...), "/")
		if _, err := os.Stat(opt); err == nil {
			return opt
		}
	}
	return path
}

// A binary is a program that only root and we can change.
type binary struct {
	Path     string // as it was asked for, but for Homebrew's directories of versions
	Resolved string // without links
	info     fs.FileInfo
}

// Find looks at the program that is to follow the one at start. A *Refusal says what is wrong with it. hostfs.Follow has the rules.
func Find(start string) (_ *binary, err error) {
	b := &binary{Path: follow(start)}
	b.Resolved, b.info, err = hostfs.Follow(b.Path, os.Geteuid())
	if u, ok := errors.AsType[*hostfs.Untrusted](err); ok {
		return nil, refusef(codeUntrusted, "the new program %s is not run: %s%s", b.Path, u.Text, homebrew(u.Path))
	}
	if err == nil {
		err = b.usable()
	}
	if err != nil {
		return nil, refusef(codeUnusable, "the new program %s is not run: %w", b.Path, err)
	}
	return b, nil
}

// Same checks that b is still what Find saw.
func (b *binary) Same() error {
	now, err := os.Lstat(b.Resolved)
	if err == nil && (!os.SameFile(now, b.info) || now.Size() != b.info.Size() || !now.ModTime().Equal(b.info.ModTime())) {
		err = errors.New("it was replaced while it was being tried: ask again")
	}
	if err != nil {
		return refusef(codeUnusable, "%s: %w", b.Path, err)
	}
	return nil
}

// homebrew adds what to do about a program that was installed by a user.
func homebrew(path string) string {
	for _, prefix := range []string{"/opt/homebrew", "/usr/local/Cellar", "/usr/local/opt", "/home/linuxbrew"} {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return "; Homebrew's directories belong to a user, so a daemon of root is upgraded by starting it again, or is to be installed elsewhere"
		}
	}
	return ""
}

// usable checks that the program can be run at all.
func (b *binary) usable() error {
	switch mode := b.info.Mode(); {
	case !mode.IsRegular():
		return errors.New("it is not a regular file")
	case mode&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return fmt.Errorf("it would become another user (mode %v)", mode)
	case unix.Access(b.Resolved, unix.X_OK) != nil:
		return errors.New("it is not executable: chmod +x " + b.Path)
	}
	return nil
}
