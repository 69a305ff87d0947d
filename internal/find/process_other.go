// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package find

import "context"

// Processes lists the processes of this machine.
func Processes(ctx context.Context) ([]Process, error) { return PS(RunProgram)(ctx) }
