// SPDX-License-Identifier: Apache-2.0

//go:build !darwin && !linux

package freenet

import (
	"errors"
	"fmt"
	"runtime"
)

// routes says that there is no way to read them here.
func routes() ([]Conflict, error) {
	return nil, fmt.Errorf("%w on %s", errors.ErrUnsupported, runtime.GOOS)
}
