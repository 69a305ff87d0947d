// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package fakevm

import (
	"context"
	"fmt"
	"runtime"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// A lab exists on Linux only.
type lab struct{}

func newLab(context.Context, Options, []setup) (*lab, error) {
	return nil, fmt.Errorf("%w: they are network namespaces of Linux, and this is %s", ErrUnable, runtime.GOOS)
}

func (*lab) measure(context.Context, []setup) (rounds.File, error) { return rounds.File{}, ErrUnable }

func (*lab) close() error { return nil }
