// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package find

import "context"

// processes lists the processes of this machine.
func processes(ctx context.Context) ([]Process, error) { return ps(RunProgram)(ctx) }
