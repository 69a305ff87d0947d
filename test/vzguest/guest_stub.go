// SPDX-License-Identifier: Apache-2.0

//go:build !darwin || !cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
)

// supported tells that there is no Virtualization framework here, or no way to call it.
func supported() error {
	if runtime.GOOS == "darwin" {
		return errors.New("this vzguest was built without cgo: build it with CGO_ENABLED=1, on a Mac with Xcode's command line tools")
	}
	return fmt.Errorf("vzguest needs macOS's Virtualization framework; this is %s: use QEMU, as test/e2e does", runtime.GOOS)
}

func boot(context.Context, options, *os.File) error { return supported() }
