// SPDX-License-Identifier: Apache-2.0

//go:build !darwin && !vmnetsim

package darwinapi_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/darwinapi"
)

func TestElsewhere(t *testing.T) {
	assert.False(t, darwinapi.Available())
	_, err := darwinapi.ActivateSocket("daemon")
	assert.ErrorIs(t, err, darwinapi.ErrNotLaunchd)
	_, err = darwinapi.NewSender(1)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = darwinapi.NewReceiver(1, 4, 1514)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
}
