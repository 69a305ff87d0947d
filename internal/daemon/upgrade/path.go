// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// StartPath is the absolute path of the program that this process was started from, whose next version an upgrade runs. It
// is asked at the start: later the file may have been replaced, and the working directory be another one.
//
// argv[0] comes first, since it may be a link that the next installation leads elsewhere, while the system may know the
// link's target only. But anybody may have put anything into argv[0], so it counts only if it leads to the very file that
// runs.
func StartPath(argv0 string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the program's own path: %w", err)
	}
	if !filepath.IsAbs(self) {
		return "", fmt.Errorf("find the program's own path: %s is not absolute", self)
	}
	running, err := os.Stat(self)
	if err != nil {
		return self, nil // replaced or removed already: the path is what is left
	}
	asked := argv0
	if !strings.Contains(asked, "/") {
		if asked, err = exec.LookPath(asked); err != nil && !errors.Is(err, exec.ErrDot) {
			return self, nil
		}
	}
	asked, err = filepath.Abs(asked)
	if err != nil {
		return self, nil
	}
	if there, err := os.Stat(asked); err != nil || !os.SameFile(there, running) {
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
		prefix, name := strings.Join(parts[:i], "/"), parts[i+1]
		opt := filepath.Join(append([]string{prefix, "opt", name}, parts[i+3:]...)...)
		if !strings.HasPrefix(opt, "/") {
			return path
		}
		if _, err := os.Stat(opt); err == nil {
			return opt
		}
	}
	return path
}
