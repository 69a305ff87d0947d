// SPDX-License-Identifier: Apache-2.0

//go:build !darwin

package ffi

import (
	"errors"
	"fmt"
	"runtime"
)

// errPlatform is what Open returns elsewhere than on macOS.
var errPlatform = fmt.Errorf("open vmnet.framework: %w: it is part of macOS, and this is %s; use --backend=usernet",
	errors.ErrUnsupported, runtime.GOOS)
