// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"context"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

type lab struct{}

func newLab(ctx context.Context, o Options, setups []setup) (*lab, error) { return nil, ErrUnable }

func (l *lab) measure(ctx context.Context, setups []setup) (rounds.File, error) {
	return rounds.File{}, ErrUnable
}

func (l *lab) close() error { return nil }
