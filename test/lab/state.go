// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
)

// A daemon run as socket_vmnet has no option for where it keeps its state. An ordinary user's is led into the lab's
// directory; root's goes to a place of the system, from where the lab removes what its own daemons have put there.

// stateEnv is added to every process's environment.
func (l *Lab) stateEnv() []string {
	return []string{"XDG_STATE_HOME=" + l.Path("xdg-state"), "STATE_DIRECTORY="}
}

// rootStateDir is where a root daemon without options keeps its state, empty for an ordinary user.
func rootStateDir() string {
	if os.Geteuid() != 0 {
		return ""
	}
	dir, err := state.Dir("", runtime.GOOS, 0, func(string) string { return "" })
	if err != nil {
		return ""
	}
	return dir
}

// forgetState removes the state of the daemons on the given sockets, and the directory if it was not there before.
func forgetState(sockets []string, hadDir bool) error {
	dir := rootStateDir()
	if dir == "" {
		return nil
	}
	var errs []error
	for _, s := range sockets {
		if err := os.Remove(filepath.Join(dir, state.FileName(s))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove a daemon's state: %w", err))
		}
	}
	if !hadDir {
		_ = os.Remove(dir) // stays if another process uses it by now
	}
	return errors.Join(errs...)
}

// exists reports whether there is something at path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return path != "" && err == nil
}
