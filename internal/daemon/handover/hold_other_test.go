// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package handover

// holds tells whether this program loses no stop signal.
func holds() bool { return false }
