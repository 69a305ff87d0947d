// SPDX-License-Identifier: Apache-2.0

//go:build !darwin || !cgo

package main

import (
	"context"
	"errors"
	"os"
)

func boot(context.Context, options, *os.File) error {
	return errors.New("vzguest needs macOS's Virtualization framework, and to be built with CGO_ENABLED=1 there; elsewhere use QEMU, as test/e2e does")
}
