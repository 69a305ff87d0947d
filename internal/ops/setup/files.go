// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
)

// The kinds of what may be at a path.
const (
	absent  = "absent"
	regular = "file"
	symlink = "symlink"
)

// A file is what is, or was, at a path. The rest of what there is to know of it the file in the backup has itself.
type file struct {
	Kind   string `json:"kind"`
	Sum    string `json:"sha256,omitempty"` // of the contents, or of where a link leads
	Target string `json:"target,omitempty"`

	mode     fs.FileMode // permissions, with the bits for set-user-id and the like
	uid, gid int
	time     int64 // nanoseconds since 1970
	own      bool  // a program of this project, of any version
}

// modeBits are what chmod sets.
const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// look tells what is at a path. Anything but a file and a symbolic link is an error.
func look(path string) (file, error) {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return file{Kind: absent}, nil
	}
	if err != nil {
		return file{}, err
	}
	f := file{mode: fi.Mode() & modeBits, time: fi.ModTime().UnixNano()}
	f.uid, f.gid = find.Owner(fi)
	switch fi.Mode().Type() {
	case 0:
		f.Kind = regular
		var b []byte
		b, err = os.ReadFile(path)
		// Go records in a program what it was built from.
		if info, err := buildinfo.Read(bytes.NewReader(b)); err == nil {
			f.own = strings.HasPrefix(info.Path, "github.com/socket-vmnet2/socket_vmnet2/")
		}
		f.Sum = sum(b)
	case fs.ModeSymlink:
		f.Kind = symlink
		f.Target, err = os.Readlink(path)
		f.Sum = sum([]byte(f.Target))
	case fs.ModeDir:
		err = fmt.Errorf("%s is a directory where a program belongs; move it away", path)
	default:
		err = fmt.Errorf("%s is neither a file nor a link (%v) where a program belongs; move it away", path, fi.Mode().Type())
	}
	return f, err
}

// same reports whether the contents are the same, whatever the owner.
func (f file) same(g file) bool { return f.Kind == g.Kind && f.Sum == g.Sum }

// sum is the checksum of contents.
func sum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// exists reports whether anything is at a path below the prefix.
func (p place) exists(rel string) bool {
	_, err := os.Lstat(p.at(rel))
	return err == nil
}

// tempName is the name next to path under which it is made. A file of that name is of nothing else than an interrupted run.
func tempName(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".socket_vmnet2-new")
}

// removeFile removes a file, and is content if there is none.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// makeFile makes a file and the directories above it.
func makeFile(path string, perm fs.FileMode, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return replace(path, perm, content)
}

// replace makes a file under another name and then gives it its name. It belongs to root where this is root: a directory may hand its
// own group on.
func replace(path string, perm fs.FileMode, content []byte) error {
	temp := tempName(path)
	if err := removeFile(temp); err != nil {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && os.Geteuid() == 0 {
		err = f.Chown(0, 0)
	}
	if err = errors.Join(err, f.Chmod(perm), f.Sync(), f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
		return err
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil { // makes the name last, where the file system can
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}

// duplicate gives a file a second name, so that everything about it is kept. A link is made anew, with the same owner and time: macOS's
// link follows it.
func duplicate(from, to string, f file) error {
	err := os.MkdirAll(filepath.Dir(to), 0o755)
	if err == nil {
		err = removeFile(to)
	}
	switch {
	case err != nil:
		return err
	case f.Kind == regular:
		return os.Link(from, to)
	}
	t := unix.NsecToTimespec(f.time)
	if err = os.Symlink(f.Target, to); err == nil {
		err = os.Lchown(to, f.uid, f.gid)
	}
	if err == nil {
		err = os.NewSyscallError("utimensat "+to, unix.UtimesNanoAt(unix.AT_FDCWD, to, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW))
	}
	return err
}

// A source is the programs to install.
type source struct {
	files   map[string][]byte // by target
	version string
}

// findSource reads the programs. They must run if they are for this machine, which those for a staged root need not be.
func findSource(ctx context.Context, from string, try bool) (*source, error) {
	if from == "" {
		program, err := os.Executable()
		if err == nil {
			program, err = filepath.EvalSymlinks(program)
		}
		if err != nil {
			return nil, fmt.Errorf("find this program: %w; say where the programs are with --from", err)
		}
		from = filepath.Dir(program)
		if _, err := os.Stat(filepath.Join(from, "../libexec/vmnet-helper")); err == nil && filepath.Base(from) == "bin" {
			from = filepath.Dir(from)
		}
	}
	s, program := &source{files: map[string][]byte{}, version: "socket_vmnet2"}, ""
	for _, t := range targets {
		path, content, err := readProgram(from, t)
		if err != nil {
			return nil, err
		}
		s.files[t], program = content, path
	}
	if !bytes.Equal(s.files["bin/socket_vmnet"], s.files["bin/socket_vmnet2"]) {
		return nil, fmt.Errorf("socket_vmnet and %s differ, but are one program under two names: %s is half installed, or socket_vmnet's own; build it again", program, from)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := find.RunProgram(ctx, program, "--version")
	if err == nil {
		s.version = strings.TrimSpace(string(out))
	} else if try {
		return nil, fmt.Errorf("%s does not run here, so it is of no use: %w", program, err)
	}
	return s, nil
}

// readProgram reads a target from a prefix, or from a directory that has all of them.
func readProgram(where, target string) (path string, content []byte, err error) {
	for _, rel := range []string{target, filepath.Base(target)} {
		path, err = filepath.Abs(filepath.Join(where, rel))
		if err == nil {
			content, err = os.ReadFile(path)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EISDIR): // bin/socket_vmnet2 in a prefix of the name socket_vmnet2
			continue
		case err == nil && len(content) == 0:
			err = fmt.Errorf("%s is empty: a build or an installation was interrupted; do it again", path)
		}
		return path, content, err
	}
	if target == "bin/socket_vmnet" { // the same program, under the name that is there in any case
		return readProgram(where, "bin/socket_vmnet2")
	}
	return "", nil, fmt.Errorf("%s has neither %s nor %s: name a directory that has all programs with --from, as bin after make",
		where, target, filepath.Base(target))
}
