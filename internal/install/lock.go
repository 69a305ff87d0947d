// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFile is where only root can take the lock. It is not below the prefix, which comes and goes.
const lockFile = "/var/run/socket_vmnet2-install.lock"

// lock keeps others out: on a file, or for a staged root on that directory, which gets no file of ours.
func (p place) lock() (unlock func(), err error) {
	path, flags := lockFile, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW
	if p.root != "" {
		path, flags = p.root, os.O_RDONLY
	}
	f, err := os.OpenFile(path, flags|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.New("another install or rollback is at work: try again when it has ended")
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
