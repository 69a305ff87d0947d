// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package handover

import "os"

// memoryFile makes a file of mode 0600 that has no name.
func memoryFile() (*os.File, error) { return temporary() }

// stopSignalsKill does nothing: the signal's action cannot be changed here without cgo. A signal that comes in the moment of the
// exec may be lost, or close what the new image needs: that ends then, with exit code 1.
func stopSignalsKill() (undo func()) { return func() {} }
