// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package handover

import (
	"errors"
	"os"
	"syscall"
)

// memoryFile makes a file without a name, with mode 0600. Root makes it where no other user can give it a second name.
func memoryFile() (*os.File, error) {
	dir := ""
	if os.Geteuid() == 0 {
		dir = "/var/run"
	}
	f, err := os.CreateTemp(dir, ".socket_vmnet2-*") // made anew (O_EXCL), mode 0600
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// deadly has the system end the process by a signal, without a handler of Go's, as on Linux.
var deadly = func(syscall.Signal) (undo func()) { return func() {} }

// quiesce would wait for handlers that have begun: no way is known.
func quiesce() {}
