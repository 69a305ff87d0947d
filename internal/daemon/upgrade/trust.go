// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// A Binary is a program that only root and we can change.
type Binary struct {
	Path     string // as it was asked for, but for Homebrew's directories of versions
	Resolved string // without links
	info     fs.FileInfo
}

// Find looks at the program that is to follow the one at start. A *Refusal says what is wrong with it. hostfs.Follow has the rules.
func Find(start string) (*Binary, error) {
	b := &Binary{Path: follow(start)}
	if err := b.look(os.Geteuid()); err != nil {
		return nil, err
	}
	return b, nil
}

// Same checks that b is still what Find saw.
func (b *Binary) Same() error {
	now, err := os.Lstat(b.Resolved)
	if err == nil && (!os.SameFile(now, b.info) || now.Size() != b.info.Size() || !now.ModTime().Equal(b.info.ModTime())) {
		err = errors.New("it was replaced while it was being tried: ask again")
	}
	if err != nil {
		return refusef(codeUnusable, "%s: %w", b.Path, err)
	}
	return nil
}

// look follows the path.
func (b *Binary) look(euid int) (err error) {
	b.Resolved, b.info, err = hostfs.Follow(b.Path, euid)
	if u, ok := errors.AsType[*hostfs.Untrusted](err); ok {
		return refusef(codeUntrusted, "the new program %s is not run: %s%s", b.Path, u.Text, homebrew(u.Path))
	}
	if err != nil {
		return refusef(codeUnusable, "the new program %s is not run: %w", b.Path, err)
	}
	return b.usable()
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
func (b *Binary) usable() error {
	switch {
	case !b.info.Mode().IsRegular():
		return refusef(codeUnusable, "the new program %s is not run: it is no regular file", b.Path)
	case b.info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return refusef(codeUnusable, "the new program %s is not run: it would become another user (mode %v)", b.Path, b.info.Mode())
	case b.info.Mode().Perm()&0o111 == 0 || unix.Access(b.Resolved, unix.X_OK) != nil:
		return refusef(codeUnusable, "the new program %s is not run: it is not executable: chmod +x %s", b.Path, b.Path)
	}
	f, err := os.OpenFile(b.Resolved, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return refusef(codeUnusable, "the new program %s is not run: %w", b.Path, err)
	}
	return f.Close()
}
