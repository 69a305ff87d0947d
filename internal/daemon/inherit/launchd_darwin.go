// SPDX-License-Identifier: Apache-2.0

package inherit

import (
	"errors"

	"github.com/socket-vmnet2/socket_vmnet2/internal/darwinapi"
)

func init() {
	activateSocket = func(name string) ([]int, error) {
		fds, err := darwinapi.ActivateSocket(name)
		if errors.Is(err, darwinapi.ErrNotLaunchd) {
			return nil, nil
		}
		return fds, err
	}
}
