// SPDX-License-Identifier: Apache-2.0

package handoff

import "golang.org/x/sys/unix"

// holds tells whether this program can have stop signals wait.
func holds() bool { return onAllThreads(unix.SIG_BLOCK, new(unix.Sigset_t)) }
