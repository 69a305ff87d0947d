// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package handoff

import "os"

// memoryFile makes a file of mode 0600 that has no name.
func memoryFile() (*os.File, error) { return temporary() }

// holdStopSignals does nothing: without cgo a thread's signal mask cannot be changed here. A signal that comes in the moment
// of the exec may be lost.
func holdStopSignals() (undo func()) { return func() {} }
