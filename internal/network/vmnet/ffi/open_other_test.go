// SPDX-License-Identifier: Apache-2.0

//go:build !darwin

package ffi_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi"
)

func TestOpenElsewhere(t *testing.T) {
	_, err := ffi.Open()
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	assert.ErrorContains(t, err, "--backend=usernet")
}
