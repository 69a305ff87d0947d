// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package handoff

import "os"

// memoryFile makes a file of mode 0600 that has no name.
func memoryFile() (*os.File, error) { return temporary() }

// blockStopSignals does nothing: without cgo a thread's signal mask cannot be changed here. A stop signal in the few
// milliseconds between the exec and signal.Notify of the new image ends the process.
func blockStopSignals() (unblock func()) { return func() {} }
