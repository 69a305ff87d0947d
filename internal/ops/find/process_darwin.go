// SPDX-License-Identifier: Apache-2.0

package find

import (
	"context"

	"github.com/socket-vmnet2/socket_vmnet2/internal/darwinapi"
)

// processes lists the processes of this machine.
func processes(ctx context.Context) ([]Process, error) {
	list, err := ps(RunProgram)(ctx)
	for i := range list {
		list[i].Exe = darwinapi.Executable(list[i].PID)
	}
	return list, err
}
