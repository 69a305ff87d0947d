// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"path/filepath"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// PathOf is the absolute path of the directory beside socket, itself an absolute path, where dir is --runtime-dir. It is empty
// when there shall be none. Nothing is looked at.
func PathOf(socket, dir string) string {
	switch dir {
	case compat.RuntimeDirNone:
		return ""
	case "":
		return socket + suffix
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	return abs
}
