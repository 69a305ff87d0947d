// SPDX-License-Identifier: Apache-2.0

//go:build !darwin

package ffi

import (
	"errors"
	"fmt"
	"runtime"
)

// Open returns an error: vmnet.framework is part of macOS. Under the tag vmnetsim there is OpenSimulator.
func Open() (*API, error) {
	return nil, fmt.Errorf("open vmnet.framework: %w: it is part of macOS, and this is %s; use --backend=usernet",
		errors.ErrUnsupported, runtime.GOOS)
}
