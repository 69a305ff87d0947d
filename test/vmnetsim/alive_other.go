// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package vmnetsim

import "os"

// byteLocked cannot tell here; the simulator is for Linux.
func byteLocked(*os.File, int64) bool { return true }
