// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package handoff

// holds tells whether this program can have stop signals wait.
func holds() bool { return false }
