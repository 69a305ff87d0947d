// SPDX-License-Identifier: Apache-2.0

//go:build !faults

package faults

// Point does nothing.
func Point(string) {}

// In does nothing.
func In(string, []byte) {}
