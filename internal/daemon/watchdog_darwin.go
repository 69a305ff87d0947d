// SPDX-License-Identifier: Apache-2.0

package daemon

import "github.com/socket-vmnet2/socket_vmnet2/internal/darwinapi"

// endAfter has the system end the process after so many seconds.
func endAfter(seconds uint) (undo func()) { return darwinapi.EndAfter(seconds) }
