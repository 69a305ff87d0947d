// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package handover

import "os"

// memoryFile makes a file of mode 0600 that has no name.
func memoryFile() (*os.File, error) { return temporary() }
