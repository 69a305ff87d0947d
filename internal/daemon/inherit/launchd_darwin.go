// SPDX-License-Identifier: Apache-2.0

package inherit

import (
	"errors"

	"github.com/socket-vmnet2/socket_vmnet2/internal/darwinapi"
)

// activateSocket asks launchd for the sockets of this name.
func activateSocket(name string) ([]int, error) {
	fds, err := darwinapi.ActivateSocket(name)
	if errors.Is(err, darwinapi.ErrNotLaunchd) {
		return nil, errNotLaunchd
	}
	return fds, err
}
