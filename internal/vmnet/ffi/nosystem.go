// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim && !darwin

package ffi

// Open returns an error: vmnet.framework is part of macOS. See OpenSimulator.
func Open() (*API, error) { return nil, errPlatform }
